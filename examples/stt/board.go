package main

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// board shows transcripts as they come, a line for each change. Its methods may be called from any goroutine.
type board struct {
	width int // of the clips' names

	mu  sync.Mutex
	out io.Writer // guarded by mu
}

func newBoard(out io.Writer, clips []clip) *board {
	b := &board{out: out}
	for _, c := range clips {
		b.width = max(b.width, len(c.name))
	}
	return b
}

// stream returns what shows the answers of one session.
func (b *board) stream(client int, name string) func(speech.Answer) {
	last := ""
	return func(a speech.Answer) {
		mark, text := "...", a.Partial
		if a.Text != "" {
			mark, text = "  =", a.Text
		}
		if line := mark + text; text != "" && line != last {
			last = line
			b.show(client, name, mark, text)
		}
	}
}

// show shows a text of a client's session.
func (b *board) show(client int, name, mark, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, "client %-2d  %-*s %s %s\n", client, b.width, name, mark, text)
}

// say shows what happens to the servers.
func (b *board) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, "---------  "+format+"\n", args...)
}

// report shows what the recogniser says of each clip without the proxy, how many sessions through the proxy got exactly
// that, and how many connections served them.
func report(out io.Writer, clips []clip, sessions []session, direct map[string]transcript, backends []api.Backend) {
	type tally struct{ sessions, equal int }
	tallies := make(map[string]tally)
	answers := 0
	for _, s := range sessions {
		t := tallies[s.clip]
		t.sessions++
		answers += len(s.heard)
		if s.err == nil && s.heard.difference(direct[s.clip]) == "" {
			t.equal++
		}
		tallies[s.clip] = t
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "recording\tsessions\tequal\twithout the proxy")
	for _, c := range clips {
		t := tallies[c.name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", c.name, t.sessions, t.equal, direct[c.name].text())
	}
	_ = w.Flush() // there is no one to see a failure to write
	fmt.Fprintf(out, "\n%d answers to %d sessions, compared to the letter\n", answers, len(sessions))
	var all api.Totals
	for _, b := range backends {
		fmt.Fprintf(out, "%s: %s\n", b.URL, totals(b.Totals))
		all.Leased += b.Totals.Leased
		all.Dialed += b.Totals.Dialed
		all.Returned += b.Totals.Returned
	}
	fmt.Fprintf(out, "in all: %s\n", totals(all))
}

func totals(t api.Totals) string {
	return fmt.Sprintf("%d sessions, %d connections dialed, %d times one was returned for another session", t.Leased, t.Dialed, t.Returned)
}
