package demo

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// view shows the demonstration: on a terminal as a picture that it redraws, elsewhere as a line from time to time.
type view struct {
	options Options
	proxy   *app.Proxy
	results *results
	started time.Time

	last   api.Stats
	lastAt time.Time
	drawn  int // lines on the terminal to overwrite
}

func (v *view) run(ctx context.Context) {
	interval := 2 * time.Second
	if v.options.Terminal {
		interval = time.Second / 2
	}
	v.last, v.lastAt = v.proxy.Stats(), time.Now()
	fmt.Fprint(v.options.Out, v.heading())
	for range tasks.Every(ctx, interval) {
		if v.options.Terminal {
			v.draw()
		} else {
			v.line()
		}
	}
}

// heading says what is running where. On a terminal, the picture ends with what can be done, where people look.
func (v *view) heading() string {
	end := "Ctrl-C ends it"
	if v.options.Duration > 0 {
		end = fmt.Sprintf("It ends after %v", v.options.Duration)
	}
	heading := fmt.Sprintf("wsbouncer demo: %d clients stream speech through the proxy to %d simulated\nservers. %s.\n\n  clients    ws://%s/\n",
		v.options.Clients, v.options.Servers, end, v.proxy.Addresses()[0])
	if !v.options.Terminal {
		heading += v.invitation(v.proxy.AdminAddress().String())
	}
	return heading + "\n"
}

// invitation names the dashboard of the proxy whose admin API has the address, and commands to try.
func (v *view) invitation(admin string) string {
	return fmt.Sprintf(`  dashboard  http://%[2]s/
  try in another terminal
    %[1]s top --admin %[2]s
    %[1]s status --admin %[2]s
    %[1]s session ls --admin %[2]s
`, v.options.Program, admin)
}

// rates are frames per second since the last call of sample.
type rates struct{ in, out float64 }

// sample returns the statistics, and the rates since its last call.
func (v *view) sample() (api.Stats, rates) {
	stats, now := v.proxy.Stats(), time.Now()
	seconds := now.Sub(v.lastAt).Seconds()
	r := rates{
		in:  float64(stats.Relayed.FramesFromClients-v.last.Relayed.FramesFromClients) / seconds,
		out: float64(stats.Relayed.FramesFromBackends-v.last.Relayed.FramesFromBackends) / seconds,
	}
	v.last, v.lastAt = stats, now
	return stats, r
}

// draw draws the picture over the last one.
func (v *view) draw() {
	stats, rates := v.sample()
	streams, failures, mixed, _, p50, p99, lines, _ := v.results.now()
	var b strings.Builder
	fmt.Fprintf(&b, "  sessions %6d active  %7d finished  %d failed  %d mixed up\n", stats.Sessions.Active, streams, failures, mixed)
	fmt.Fprintf(&b, "  frames   %6.0f/s from clients  %6.0f/s from servers\n", rates.in, rates.out)
	fmt.Fprintf(&b, "  answers  p50 %v  p99 %v  (after audio was due; servers take 20-35ms)\n\n", rounded(p50), rounded(p99))

	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "  backend\tdialing\tidle\tleased\tresetting\tretiring\tcap\tused\t")
	for _, backend := range stats.Backends {
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", strings.TrimPrefix(backend.URL, "ws://"), backend.Dialing, backend.Idle, backend.Leased,
			backend.Resetting, backend.Retiring, backend.Cap, backend.Totals.Leased)
	}
	_ = w.Flush()

	b.WriteString("\n  transcripts\n")
	for i := range linesKept {
		if i < len(lines) {
			b.WriteString(showLine(lines[i], 76))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n" + v.invitation(v.proxy.AdminAddress().String()))
	picture := b.String()
	erased := strings.ReplaceAll(picture, "\n", "\x1b[K\n")
	if v.drawn > 0 {
		fmt.Fprintf(v.options.Out, "\x1b[%dA", v.drawn)
	}
	fmt.Fprint(v.options.Out, erased)
	v.drawn = strings.Count(picture, "\n")
}

// line prints the most important numbers in one line, and the latest transcript.
func (v *view) line() {
	stats, rates := v.sample()
	streams, failures, mixed, _, p50, p99, lines, _ := v.results.now()
	idle, leased := 0, 0
	for _, backend := range stats.Backends {
		idle, leased = idle+backend.Idle, leased+backend.Leased
	}
	fmt.Fprintf(v.options.Out, "%4.0fs  %d sessions, %d finished, %d failed, %d mixed up; %.0f frames/s in, %.0f out; answers p50 %v p99 %v; pools: %d idle, %d leased\n",
		time.Since(v.started).Seconds(), stats.Sessions.Active, streams, failures, mixed, rates.in, rates.out,
		rounded(p50), rounded(p99), idle, leased)
	if len(lines) > 0 {
		fmt.Fprintln(v.options.Out, showLine(lines[len(lines)-1], 150))
	}
}

// showLine formats a transcript. If it does not fit into width, only its end is shown.
func showLine(l line, width int) string {
	kind := "..."
	if l.final {
		kind = "   "
	}
	text := []rune(l.text)
	if len(text) > width-20 {
		text = append([]rune("… "), text[len(text)-width+22:]...)
	}
	return fmt.Sprintf("  client %-4d %s %s", l.client, kind, string(text))
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// fixedAdmin is an address of the admin API for those who run the demonstration again.
const fixedAdmin = "127.0.0.1:9090"

// summary prints the final results. It returns an error if something went wrong.
func (v *view) summary() error {
	streams, failures, mixed, answers, p50, p99, _, last := v.results.now()
	fmt.Fprintf(v.options.Out, "\n%d streams finished, %d failed, %d mixed up; %d answers (p50 %v, p99 %v)\n",
		streams, failures, mixed, answers, rounded(p50), rounded(p99))
	fmt.Fprintf(v.options.Out, "\nRun it at a fixed address, until Ctrl-C:\n\n  %s demo --admin %s\n\n%s",
		v.options.Program, fixedAdmin, v.invitation(fixedAdmin))
	switch {
	case failures > 0:
		return fmt.Errorf("%d streams failed; the last one: %w", failures, last)
	case mixed > 0:
		return fmt.Errorf("%d transcripts were not those of their audio", mixed)
	}
	return nil
}
