//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/bench/backends"
	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// startsPerRound is how many sessions each way has for each round.
const startsPerRound = 40

// eachWay is how long data takes to the backend, and back: a backend that is 20 ms away, there and back.
const eachWay = 10 * time.Millisecond

// warmConnections is how many connections each wsbouncer has. One is enough for sessions in turn with the profile echo, and one
// for the session that stays open; with one-shot, several are being replaced.
const warmConnections = 10

// way is a way to the backend, for sessions to begin on.
type way struct {
	Name    string `json:"name"`
	Missing string `json:"missing,omitempty"` // why it cannot be measured here
	// Times in milliseconds since the upgrade request was sent: until its answer was there, and until the first message was
	// answered.
	Granted []float64 `json:"granted_ms,omitempty"`
	Replied []float64 `json:"replied_ms"`

	begin func(ctx context.Context) (granted, replied time.Duration, err error)
}

// The names of the ways that others are compared with.
const (
	openSession = "wsbouncer, an open session"
	byHAProxy   = "HAProxy"
)

// measureStart measures how soon a session has its first reply, from a backend that is far away.
func measureStart(ctx context.Context, p *programs, o options) (*table, error) {
	server, address, err := p.startServer(ctx, "echo")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	far, stop, err := backends.FarAway(address, eachWay)
	if err != nil {
		return nil, err
	}
	defer stop()
	var ways []*way
	var warm *child.Proxy // whose connections serve all sessions
	for _, profile := range []string{"echo", "one-shot"} {
		// One-shot connections are replaced meanwhile, which takes a few sessions' time.
		x, err := p.startProxy(ctx, profile, far, warmConnections)
		if err != nil {
			return nil, err
		}
		defer x.Stop()
		ways = append(ways, &way{Name: "wsbouncer, --profile " + profile, begin: newSession(x.Listen)})
		if profile == "echo" {
			warm = x
			open, err := openedSession(ctx, x.Listen)
			if err != nil {
				return nil, err
			}
			ways = slices.Insert(ways, 0, &way{Name: openSession, begin: open})
		}
	}
	haproxy, err := p.haproxy(ctx)
	if err != nil {
		return nil, err
	}
	dialing := &way{Name: byHAProxy, Missing: haproxy.Missing}
	if haproxy.Missing == "" {
		free, err := child.FreeAddresses(1)
		if err != nil {
			return nil, err
		}
		process, address, err := haproxy.Start(ctx, rivals.Task{Listen: free[0], Backends: []string{far}, Dir: p.dir})
		if err != nil {
			return nil, err
		}
		defer process.Stop()
		dialing.begin = newSession(address)
	}
	ways = append(ways, dialing, &way{Name: "no proxy", begin: newSession(far)})
	for n := range o.rounds * startsPerRound {
		for i := range ways {
			w := ways[(i+n)%len(ways)]
			if w.Missing != "" {
				continue
			}
			granted, replied, err := w.begin(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
			if granted > 0 {
				w.Granted = append(w.Granted, milliseconds(granted))
			}
			w.Replied = append(w.Replied, milliseconds(replied))
		}
	}
	dialed, _, err := backendTotals(ctx, warm)
	if err != nil {
		return nil, err
	}
	if dialed != warmConnections {
		return nil, fmt.Errorf("%d connections were dialed instead of %d: sessions have begun on others than warm ones", dialed, warmConnections)
	}
	for _, w := range ways {
		if w.Missing == "" {
			log.Printf("start %s: first reply after %.1f ms", w.Name, results.Median(w.Replied))
		}
	}
	return startTable(ways, o), nil
}

// question is a client's first message, and what an echo server answers.
func question() ws.Frame { return ws.NewBinaryFrame(make([]byte, frameSize)) }

// newSession returns a function that holds a session of one message at an address. The TCP connection to there is not part of
// what is timed.
func newSession(address string) func(ctx context.Context) (granted, replied time.Duration, err error) {
	return func(ctx context.Context) (granted, replied time.Duration, err error) {
		c, err := connect(ctx, address)
		if err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := errors.Join(c.ask(""), c.upgraded()); err != nil {
			return 0, 0, err
		}
		granted = time.Since(began)
		if err := c.send(question()); err != nil {
			return 0, 0, err
		}
		if _, err := c.receive(); err != nil {
			return 0, 0, err
		}
		replied = time.Since(began)
		err = c.send(goodbye())
		go c.drain() // the way back is long, and not of interest
		return granted, replied, err
	}
}

// openedSession begins a session at an address and returns a function that times a message in it: the round trip from client to
// proxy and from there to the backend, the least that a session's first message can take.
func openedSession(ctx context.Context, address string) (func(ctx context.Context) (granted, replied time.Duration, err error), error) {
	c, err := connect(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.ask(""), c.upgraded()); err != nil {
		return nil, err
	}
	return func(context.Context) (granted, replied time.Duration, err error) {
		began := time.Now()
		if err := c.send(question()); err != nil {
			return 0, 0, err
		}
		_, err = c.receive()
		return 0, time.Since(began), err
	}, nil
}

func startTable(ways []*way, o options) *table {
	t := &table{
		Title: "Session start",
		Text: fmt.Sprintf("From sending the upgrade request to the reply to the first message (%d bytes, echoed), %d sessions each, in turn. The backend "+
			"is behind Toxiproxy, which adds %v on each way, %v to a round trip (but nothing to a TCP handshake, which it completes itself: a real "+
			"network would take as long again for each dial). No TLS. Milliseconds; ratios are those of p50.",
			frameSize, o.rounds*startsPerRound, eachWay, 2*eachWay),
		Header:  []string{"way", "upgraded, p50", "first reply, p50", "p99", "/ a round trip in an open session", "/ " + byHAProxy},
		Numbers: ways,
	}
	var least, dialing float64
	for _, w := range ways {
		switch {
		case len(w.Replied) == 0:
		case w.Name == openSession:
			least = results.Quantile(w.Replied, 0.5)
		case w.Name == byHAProxy:
			dialing = results.Quantile(w.Replied, 0.5)
		}
	}
	for _, w := range ways {
		row := []string{w.Name}
		if w.Missing != "" {
			t.Rows = append(t.Rows, append(row, "skipped: "+w.Missing))
			continue
		}
		granted := "-"
		if len(w.Granted) > 0 {
			granted = inMilliseconds(results.Quantile(w.Granted, 0.5))
		}
		p50 := results.Quantile(w.Replied, 0.5)
		t.Rows = append(t.Rows, append(row, granted, inMilliseconds(p50), inMilliseconds(results.Quantile(w.Replied, 0.99)), over(p50, least), over(p50, dialing)))
	}
	return t
}

// over shows a ratio; a hyphen when there is nothing to compare with.
func over(value, base float64) string {
	if base == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", value/base)
}
