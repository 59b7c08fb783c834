// Package top is the full-screen view of a running proxy, `wsbouncer top`. [Model] is pure: updates and keys go in, a screen of text and
// orders come out. A feed reads the proxy's stream of events, and [Run] joins both with a terminal. No other command loads anything
// of it at run time but its types.
package top

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Operator carries out what the user asks for. Its methods may be called from any goroutine, several at a time.
type Operator interface {
	// Session returns everything that is known about a session.
	Session(ctx context.Context, id string) (api.SessionDetail, error)
	// Kill ends a session. It returns in words what was done, as the other methods do.
	Kill(ctx context.Context, id string) (string, error)
	// SetState gives a backend another desired state: draining or enabled.
	SetState(ctx context.Context, backend, state string) (string, error)
	// Pause has the clients of a service wait, Resume ends that.
	Pause(ctx context.Context, service string) (string, error)
	Resume(ctx context.Context, service string) (string, error)
}

// Style says what the terminal can show.
type Style struct {
	Colours bool
	Plain   bool // text only: no colours, nothing bold or reversed
	ASCII   bool // no characters beside those of ASCII
}

// Order is what the user wants to be done.
type Order struct {
	Verb   Verb
	Target string // a session's id, or the name of a backend or service
}

// Verb is a kind of order.
type Verb int

// The orders.
const (
	None    Verb = iota
	Quit         // end the program
	Suspend      // leave the terminal to the shell for now
	Watch        // ask the proxy for other sessions, see [Model.Query]
	Show         // fetch the details of a session
	Kill
	Drain
	Enable
	Pause
	Resume
)

// onceTimeout is how long a single frame may take.
const onceTimeout = 20 * time.Second

// Once returns one frame as text, of this many columns, with at most this many sessions; 0 for all that the proxy sends. It takes a second
// or two, since rates need two statistics and two lists of sessions. cure returns the commands of a problem's cure as they are to be shown.
func Once(ctx context.Context, proxy *client.Client, style Style, width, mostSessions int, cure func(string) string) (string, error) {
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
	return m.Text(mostSessions, cure), nil
}
