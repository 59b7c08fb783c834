package hunt

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A trace shows audio as what it carries, and the beginning of other messages.
func TestTrace(t *testing.T) {
	r := newRing(4, 10)
	p := r.begin(11, Vanish)
	p.message("sent", Message{Opcode: frame.Binary, Payload: sim.AppendMark(nil, sim.Mark{Session: 11, Seq: 1}, 3)})
	p.message("received", text(`{"text" : "%s"}`, strings.Repeat("x", 1000)))
	got := r.text(11)
	for _, want := range []string{"session 11, manner vanish\n", "sent binary, 48 bytes: audio of s11:1\n", "received text, 1013 bytes: {"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if len(got) > 2*(maxShown+100) {
		t.Errorf("%d bytes", len(got))
	}
}

// A session that lags behind does not write into the trace of the one that took its place.
func TestTraceOfLateSession(t *testing.T) {
	r := newRing(4, 1)
	late := r.begin(2, Stall)
	r.begin(6, CleanEnd)
	late.Add("still here")
	if got := r.text(6); strings.Contains(got, "still here") || !strings.Contains(got, "session 6") {
		t.Errorf("got %s", got)
	}
	if got := r.text(2); !strings.Contains(got, "not among the latest 4") {
		t.Errorf("got %s", got)
	}
}
