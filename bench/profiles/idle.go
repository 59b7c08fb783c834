//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// latencies are how long the simulated servers take to answer.
var latencies = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond}

// idlePerRound is how many sessions of each row a round has.
const idlePerRound = 4

// idleRow is the result for one profile, one server and one manner of leaving. Times are in milliseconds.
type idleRow struct {
	Profile string
	Client  manner
	Latency float64   // that the server was started with
	Answers []float64 // that the server took, each time
	Settle  float64
	Returns []float64 // from leaving until the next client had the connection
}

// measureIdle measures how soon a connection serves its next client.
func measureIdle(ctx context.Context, p *programs, o options) ([]idleRow, error) {
	all, err := dialogues()
	if err != nil {
		return nil, err
	}
	var rows []idleRow
	for i := range all {
		d := &all[i]
		settle, err := p.settle(d.profile)
		if err != nil {
			return nil, err
		}
		for _, latency := range latencies {
			measured, err := p.returns(ctx, d, latency, o.rounds*idlePerRound)
			if err != nil {
				return nil, fmt.Errorf("%s, %v: %w", d.profile, latency, err)
			}
			for _, r := range measured {
				r.Settle = milliseconds(settle)
				log.Printf("idle %s, %v: a client that %s: idle after %.1f ms", d.profile, latency, r.Client, results.Median(r.Returns))
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// returns measures a profile with a server.
func (p *programs) returns(ctx context.Context, d *dialogue, latency time.Duration, sessions int) ([]idleRow, error) {
	server, address, err := child.StartSimulator(ctx, p.wsbouncer, d.Name, "--latency", latency.String(), "--quiet")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var answers []float64
	for n := range sessions {
		took, err := d.answer(ctx, address, progress(n))
		if err != nil {
			return nil, err
		}
		answers = append(answers, milliseconds(took))
	}
	var rows []idleRow
	for _, how := range d.manners {
		row := idleRow{Profile: d.profile, Client: how, Latency: milliseconds(latency), Answers: answers}
		if row.Returns, err = p.leaving(ctx, d, how, address, sessions); err != nil {
			return nil, fmt.Errorf("a client that %s: %w", how, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// leaving has clients leave a proxy that has one connection. Each time, the next client already waits for it. The proxy accepts that
// client when the connection is idle again and was handed over.
func (p *programs) leaving(ctx context.Context, d *dialogue, how manner, address string, sessions int) ([]float64, error) {
	x, err := p.startProxy(ctx, d.profile, address, 1)
	if err != nil {
		return nil, err
	}
	defer kit.StopAll(x.Process)
	holder, err := ask(ctx, x.Listen, d.Subprotocol())
	if err == nil {
		err = holder.upgraded()
	}
	if err != nil {
		return nil, err
	}
	var returns []float64
	for n := range sessions {
		session := progress(n)
		if err := d.begin(holder, session); err != nil {
			return nil, err
		}
		next, err := ask(ctx, x.Listen, d.Subprotocol())
		if err != nil {
			return nil, err
		}
		if err := child.Await(ctx, x, "a client that waits", func(s *api.Stats) bool {
			return len(s.Services) == 1 && s.Services[0].Queue.Waiting == 1
		}); err != nil {
			return nil, err
		}
		left, err := d.leave(holder, session, how)
		if err != nil {
			return nil, err
		}
		if err := next.upgraded(); err != nil {
			return nil, err
		}
		returns = append(returns, milliseconds(time.Since(left)))
		holder.drain()
		holder = next
	}
	if err := holder.send(true); err != nil {
		return nil, err
	}
	holder.drain()
	dialed, discarded, err := backendTotals(ctx, x)
	if err == nil && (dialed != 1 || discarded != 0) {
		err = errors.New("the connection was not used again: the proxy's log may say why")
	}
	return returns, err
}

// idleTable returns the table with its title and text.
func idleTable(rows []idleRow, o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Return to idle\n\nFrom when a client sends its close frame (with its last audio, and its end, where it does not wait) until the next "+
		"client, who already waits for the only connection, is let in; %d sessions in each row. \"Answer\" is the simulated server's own time "+
		"from the end to its last message, without a proxy (median), for the latency that it was given; \"settle\" is the profile's. Milliseconds.\n\n",
		o.rounds*idlePerRound)
	header := []string{"profile", "latency", "answer", "settle", "a client that", "p50", "p99", "p50 - (answer + settle)", "p50 / (answer + settle)"}
	var lines [][]string
	for _, r := range rows {
		answer, p50 := results.Median(r.Answers), results.Quantile(r.Returns, 0.5)
		budget := answer + r.Settle
		lines = append(lines, []string{
			r.Profile, fmt.Sprint(r.Latency), inMilliseconds(answer), fmt.Sprint(r.Settle), string(r.Client),
			inMilliseconds(p50), inMilliseconds(results.Quantile(r.Returns, 0.99)), inMilliseconds(p50 - budget), fmt.Sprintf("%.2f", p50/budget),
		})
	}
	results.WriteTable(&b, header, lines)
	return b.String() + "\n"
}

// milliseconds returns a time in milliseconds.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inMilliseconds shows a number of milliseconds.
func inMilliseconds(v float64) string { return fmt.Sprintf("%.2f", v) }
