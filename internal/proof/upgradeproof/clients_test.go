//go:build linux

package upgradeproof

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Each way in which a session can go wrong is found, by its kind.
func TestClientsJudge(t *testing.T) {
	for _, test := range []struct {
		name    string
		outcome hunt.Outcome
		want    string
	}{
		{"well", hunt.Outcome{Upgraded: 1, Completed: true}, ""},
		{"no connection", hunt.Outcome{Kind: "dial: refused"}, refused},
		{"an answer other than 101", hunt.Outcome{Kind: "HTTP 503", Status: 503}, refused},
		{"no answer", hunt.Outcome{Kind: hunt.Timeout}, refused},
		{"reset at the door", hunt.Outcome{Kind: hunt.Reset}, reset},
		{"ended at the door", hunt.Outcome{Kind: hunt.EndWithoutClose}, reset},
		{"reset", hunt.Outcome{Upgraded: 1, Kind: hunt.Reset}, cut},
		{"closed", hunt.Outcome{Upgraded: 1, Kind: "close 1001", Code: frame.GoingAway}, cut},
		{"not to its end", hunt.Outcome{Upgraded: 1}, cut},
		{"an echo that does not come", hunt.Outcome{Upgraded: 1, Kind: hunt.Timeout}, lost},
		{"one echo less", hunt.Outcome{Upgraded: 1, Completed: true, Lost: 1}, lost},
		{"one more", hunt.Outcome{Upgraded: 1, Completed: true, Twice: 1}, lost},
		{"another one's", hunt.Outcome{Upgraded: 1, Completed: true, Foreign: 1}, lost},
	} {
		c := newClients("", kit.NewJournal(nil))
		test.outcome.Trace = func() string { return "" }
		c.judge(test.outcome)
		got := ""
		if found := c.journal.Found(); len(found) == 1 {
			got = found[0].Kind
		}
		if got != test.want || len(c.taken) != int(min(test.outcome.Upgraded, 1)) {
			t.Errorf("%s: got %q; want %q; %d arrivals", test.name, got, test.want, len(c.taken))
		}
	}
}

// More connections than the cap at one moment are found, and slow arrivals around upgrades.
func TestReport(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	r := &run{o: Options{Out: &out, Cap: 2, Pause: time.Millisecond, Directory: t.TempDir()}, journal: kit.NewJournal(nil), upgrades: []upgrade{{now, now}}}
	r.clients = newClients("", r.journal)
	r.clients.taken = []arrival{{now, 2 * time.Millisecond}, {now.Add(-time.Minute), time.Second}}
	r.counter = &counter{journal: r.journal, stop: func() {}, highest: make([]int, 2)}
	r.counter.take([]kit.Socket{{Server: kit.ServerAddress(0)}, {Server: kit.ServerAddress(1)}, {Server: kit.ServerAddress(1)}, {Server: kit.ServerAddress(1)}})
	_ = r.report()
	for _, want := range []string{
		"server 1: at most 1 connections, cap 2\nserver 2: at most 3 connections", "FOUND a server had more connections than its cap\n  how often: 1\n",
		"FOUND clients waited too long around upgrades\n  how often: 1\n", "s: they got their sessions after 2ms",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
