package top

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedProxy is a proxy that a test plays.
type playedProxy struct {
	gone atomic.Bool // it cuts every request off
}

func (p *playedProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.gone.Load() {
		panic(http.ErrAbortHandler)
	}
	_, stats := busyStats()
	stats.Services[0].Queue.Waiting = 1
	list := liveSessions(3)
	list.Sessions[0].Backend = r.URL.Query().Get("backend") // so that the test sees what was asked for
	switch r.URL.Path {
	case api.StatsPath:
		_ = json.NewEncoder(w).Encode(stats)
	case api.SessionsPath:
		_ = json.NewEncoder(w).Encode(list)
	case api.EventsPath:
		for range 100 {
			for name, value := range map[string]any{api.EventStats: stats, api.EventSessions: list, "unknown": 1} {
				text, _ := json.Marshal(value)
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(10 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
			if p.gone.Load() {
				panic(http.ErrAbortHandler)
			}
		}
	}
}

func (p *playedProxy) start(t *testing.T) *client.Client {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A feed says when the proxy goes away, finds it again, and asks anew when the query changes.
func TestFeed(t *testing.T) {
	p := new(playedProxy)
	updates, queries := make(chan Update), make(chan api.SessionQuery)
	ctx, cancel := context.WithCancel(t.Context())
	f := &feed{proxy: p.start(t), interval: 10 * time.Millisecond, emit: func(u Update) {
		select {
		case updates <- u:
		case <-ctx.Done():
		}
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx, queries, api.SessionQuery{Sort: "rate"})
	}()
	await := func(what string, fits func(u Update) bool) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case u := <-updates:
				if fits(u) {
					return
				}
			case <-limit:
				t.Fatalf("never came: %s", what)
			}
		}
	}
	await("statistics with waiting clients", func(u Update) bool { return u.Stats != nil && u.Waiting != nil && len(u.Waiting.Sessions) == 3 })
	await("sessions", func(u Update) bool { return u.Sessions != nil })
	p.gone.Store(true)
	await("the end", func(u Update) bool { return u.Away != nil && strings.Contains(u.Away.Error(), "no proxy answers at ") })
	p.gone.Store(false)
	await("the proxy again", func(u Update) bool { return u.Sessions != nil })
	go func() { queries <- api.SessionQuery{Backend: "gpu-7"} }()
	await("other sessions", func(u Update) bool { return u.Sessions != nil && u.Sessions.Sessions[0].Backend == "gpu-7" })
	cancel()
	<-ended
}

// One frame has everything; a proxy that is gone is an error, not a frame.
func TestOnce(t *testing.T) {
	p := new(playedProxy)
	c := p.start(t)
	frame, err := Once(t.Context(), c, Style{Plain: true}, 100, 2, strings.TrimSpace)
	if err != nil || !strings.Contains(frame, "BACKEND 3") || !strings.Contains(frame, "SESSION 2/") || !strings.Contains(frame, "WAITING 2/") {
		t.Errorf("%v\n%s", err, frame)
	}
	p.gone.Store(true)
	if frame, err := Once(t.Context(), c, Style{Plain: true}, 100, 2, strings.TrimSpace); err == nil || !strings.Contains(err.Error(), "no proxy answers at ") {
		t.Errorf("%v\n%s", err, frame)
	}
}
