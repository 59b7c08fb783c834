package profile

import (
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What a Boundary remembers can be moved while messages are under way in both directions, and nothing points to where it was.
func TestCompactor(t *testing.T) {
	l := builtin(t, "dashscope")
	var c Compactor
	c.Move(&l.b) // there is nothing to move
	l.begin()
	var former []weak.Pointer[session]
	move := func() {
		former = append(former, weak.Make(l.b.session))
		c, l.compactor = Compactor{}, Compactor{} // so that each place has memory of its own
		c.Move(&l.b)
	}
	move()
	l.client(frame.Text, runTask("1"))
	move()
	l.beginServerMessage(`{"header":{"event":"result-`)
	move()
	l.passed = nil
	l.endServerMessage(`generated","task_id":"1"}}`)
	move()
	l.client(frame.Text, finishTask("1"))
	move()
	l.server(event("task-finished", "1"))
	if !slices.Contains(l.passed, event("task-finished", "1")) {
		t.Errorf("passed: %q", l.passed)
	}
	runtime.GC()
	for i, p := range former {
		if p.Value() != nil {
			t.Errorf("something points to where the session was before move %d", i+1)
		}
	}
	l.want("end", l.end(), Ready, NoReason)
}
