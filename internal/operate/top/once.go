package top

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// onceTimeout is how long a single frame may take.
const onceTimeout = 20 * time.Second

// Once returns one frame as text, of this many columns, with at most this many sessions; 0 for all that the proxy sends. It takes a second
// or two, since rates need two statistics and two lists of sessions.
func Once(ctx context.Context, proxy *client.Client, style Style, width, mostSessions int) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, onceTimeout, fmt.Errorf("no two updates within %v", onceTimeout))
	defer cancel()
	m := NewModel(proxy.Address(), style)
	m.Resize(width, 1)
	updates := make(chan Update)
	f := &feed{proxy: proxy, interval: time.Second, emit: func(u Update) {
		select {
		case updates <- u:
		case <-ctx.Done():
		}
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx, make(chan api.SessionQuery), m.Query())
	}()
	defer func() {
		cancel()
		<-ended
	}()
	stats, lists := 0, 0
	for stats < 2 || lists < 2 {
		select {
		case u := <-updates:
			if u.Away != nil {
				return "", u.Away
			}
			if u.Stats != nil {
				stats++
			}
			if u.Sessions != nil {
				lists++
			}
			m.Update(u)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return m.Text(mostSessions), nil
}
