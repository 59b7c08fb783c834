package loop

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// everything is a handler with all of the optional interfaces. It passes on the names of its methods that are called.
type everything struct {
	script
	called chan string
}

func (h *everything) Stalled(*Conn)         { h.called <- "Stalled" }
func (h *everything) Ending(*Conn)          { h.called <- "Ending" }
func (h *everything) Gathered(*Conn)        { h.called <- "Gathered" }
func (h *everything) Expired(*Conn, *Timer) { h.called <- "Expired" }
func (h *everything) MoveTo(*Loop)          { h.called <- "MoveTo" }
func (h *everything) Retire(c *Conn)        { h.called <- "Retire"; c.Close() }

// counting is a filter that counts what is received.
type counting struct {
	Filter
	bytes int
}

func (f *counting) Received(c *Conn, b []byte) int {
	f.bytes += len(b)
	return f.Filter.Received(c, b)
}

// Two filters stand in front of a handler: it gets what they do not handle, through the optional interfaces, too.
func TestFilters(t *testing.T) {
	g := group(t, 2)
	inner := &everything{called: make(chan string, 10)}
	received := make(chan string, 1)
	inner.received = func(_ *Conn, b []byte) int { received <- string(b); return len(b) }
	outer := &counting{Filter: Filter{&counting{Filter: Filter{inner}}}}
	near, far := wstest.Pair(t)
	socket, err := Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	l := g.Loops()[0]
	var c *Conn
	call(t, l, func() { c = l.Add(socket, outer, nil) })
	expect := func(want string) {
		t.Helper()
		if got := wstest.Receive(t, inner.called, want); got != want {
			t.Errorf("%s was called; want %s", got, want)
		}
	}
	if _, err := far.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got := wstest.Receive(t, received, "bytes"); got != "hello" {
		t.Errorf("received %q", got)
	}
	var timer Timer
	call(t, l, func() { timer.Set(c, time.Nanosecond, 0) })
	expect("Expired")
	call(t, l, func() { c.Pause(); c.Gather() })
	if _, err := far.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	expect("Gathered")
	g.shed(l, 1, g.Loops()[1])
	expect("MoveTo")
	call(t, l, func() {
		if h, ok := As[EndingHandler](c.Handler()); ok {
			h.Ending(c)
		}
		if h, ok := As[StallHandler](c.Handler()); ok {
			h.Stalled(c)
		}
		l.retire(c, c.handler)
	})
	for _, want := range []string{"Ending", "Stalled", "Retire"} {
		expect(want)
	}
	for _, f := range []*counting{outer, outer.Handler.(*counting)} {
		if f.bytes != len("hello") {
			t.Errorf("a filter has counted %d bytes", f.bytes)
		}
	}
	if _, ok := As[Mover](&counting{Filter: Filter{&script{}}}); ok {
		t.Error("a filter in front of a handler that cannot move can move")
	}
}
