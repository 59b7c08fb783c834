//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	loads "github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// load is what the load generator is asked for.
type load struct {
	label    string // in tables
	sessions int
	rate     float64 // messages per second and session
	share    float64 // of a processor's capacity that the rate is (tails)
	size     int
	binary   bool
	duration time.Duration
	ramp     time.Duration     // time over which clients connect
	trials   int               // how many trials a search takes, about
	parallel int               // maximum number of connections being opened at a time; 0: no limit
	spare    int               // further sessions that pools must hold, because one session ends while the next starts
	length   time.Duration     // of a session, before its client starts another; 0: one session as long as the load
	header   []handshake.Field // of clients that stream audio
	audio    bool              // clients stream silence to a speech server, in messages of that size and rate, instead of asking for echoes
}

// quantiles are in milliseconds.
type quantiles struct{ P50, P99, P999, Max float64 }

func quantilesOf(t loads.Times) quantiles {
	return quantiles{milliseconds(t.Quantile(0.5)), milliseconds(t.Quantile(0.99)), milliseconds(t.Quantile(0.999)), milliseconds(t.Max())}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// loadResult is what a load has shown. The quantiles replace the distributions that they are taken from.
type loadResult struct {
	loads.Figures
	Latency, Connect, FirstEcho, ReplyAgain quantiles
}

// failures returns how many sessions failed or could not start, and how many messages got no answer.
func (r loadResult) failures() float64 { return float64(r.Figures.Failures() + r.Lost) }

// broken says what makes the other numbers of a load meaningless: sessions that did not connect or failed, echoes for another
// session.
func (r loadResult) broken() error {
	if r.Failed+r.Mixed == 0 && r.ConnectFailures == 0 && r.Connected > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d did not connect, %d failed, %d of %d messages lost, %d mixed up, errors %v",
		r.ConnectFailures, r.Connections, r.Failed, r.Lost, r.Sent, r.Mixed, r.Errors)
}

// overload says by how much the answers fell short of the load; "" if they did not.
func (r loadResult) overload(l load) string {
	const enough = 0.95
	offered := float64(l.sessions) * l.rate
	if r.MessagesPerSecond >= enough*offered && (r.Lost+r.Unsent)*1000 <= r.Sent {
		return ""
	}
	return fmt.Sprintf("it answered %.0f of %.0f messages/s", r.MessagesPerSecond, offered)
}

// offer puts a load on an address, over TLS if ca is not empty: then it is a file with the certificate to trust. It calls steady when all clients are connected and stream, and done when the last echoes are
// there.
func offer(ctx context.Context, address, ca string, l load, steady, done func()) (loadResult, error) {
	const margin = 120 * time.Second // for connecting and closing
	ctx, cancel := context.WithTimeout(ctx, l.duration+margin)
	defer cancel()
	scheme := "ws://"
	if ca != "" {
		scheme = "wss://"
	}
	before := int64(0) // answers that came before the measurement: those of speech count from the beginning
	progress := func(p loads.Progress) {
		switch {
		case !p.Begins:
		case p.Phase == loads.Steady:
			if l.audio {
				before = p.Received
			}
			steady()
		case p.Phase == loads.Done:
			done()
		}
	}
	var result *loads.Result
	var err error
	if l.audio {
		result, err = speak(ctx, scheme+address+"/", ca, l, progress)
	} else {
		result, err = loads.Run(ctx, loads.Options{
			URLs: []string{scheme + address + "/"}, TLS: secure.Settings{CA: ca}, Connections: l.sessions, Rate: l.rate, Size: l.size, Text: !l.binary,
			Duration: l.duration, Ramp: l.ramp, DialParallel: l.parallel, SessionLength: l.length, ConnectTimeout: 40 * time.Second, Drain: 2 * time.Second,
		}, progress)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return loadResult{}, fmt.Errorf("load: %w", err)
	}
	f := result.Figures
	f.Received -= before
	return loadResult{f, quantilesOf(f.Latency), quantilesOf(f.Connect), quantilesOf(f.FirstEcho), quantilesOf(f.ReplyAgain)}, nil
}
