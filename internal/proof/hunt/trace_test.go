package hunt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A trace keeps the latest, and shows audio as what it carries.
func TestTrace(t *testing.T) {
	r := newRing(4, 10)
	p := pen{r.of(11), 11}
	p.trace.begin(11, Vanish)
	p.from("127.0.0.1:4000")
	p.message("sent", Message{Opcode: frame.Binary, Payload: sim.AppendMark(nil, sim.Mark{Session: 11, Seq: 1}, 3)})
	first := r.text(11)
	for _, want := range []string{"session 11, from 127.0.0.1:4000, manner vanish\n", "sent binary, 48 bytes: audio of s11:1\n"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in %s", want, first)
		}
	}
	const more = 3 * maxEvents
	for i := range more {
		p.message("received", text(`{"text" : "word %d %s"}`, i, strings.Repeat("x", 1000)))
	}
	p.note("closes")
	all := r.text(11)
	if !strings.Contains(all, fmt.Sprintf("word %d ", more-1)) || !strings.Contains(all, "closes") || strings.Contains(all, "word 0 ") {
		t.Errorf("not the latest: %s", all)
	}
	if lines := strings.Count(all, "\n"); lines > maxEvents+2 || len(all) > (maxEvents+2)*(maxTraced+100) {
		t.Errorf("%d lines, %d bytes", lines, len(all))
	}
	if !strings.Contains(all, "earlier events") {
		t.Errorf("nothing tells that events were forgotten: %s", all)
	}
}

// A session that lags behind does not write into the trace of the one that took its place.
func TestTraceOfLateSession(t *testing.T) {
	r := newRing(4, 1)
	late, now := pen{r.of(2), 2}, pen{r.of(6), 6}
	late.trace.begin(2, Stall)
	now.trace.begin(6, CleanEnd)
	late.note("still here")
	late.from("nowhere")
	if got := r.text(6); strings.Contains(got, "still here") || strings.Contains(got, "nowhere") {
		t.Errorf("got %s", got)
	}
	if got := r.text(2); !strings.Contains(got, "not among the latest 4") {
		t.Errorf("got %s", got)
	}
}
