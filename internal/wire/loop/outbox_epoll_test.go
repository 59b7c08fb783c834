//go:build linux && !portableloop

package loop

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// ringed returns a loop that sends with io_uring. Without io_uring it skips the test.
func ringed(t *testing.T) *Loop {
	t.Helper()
	g := group(t, 1)
	if used, err := g.IOURing(); !used {
		t.Skip(err)
	}
	return g.Pick()
}

// several returns connections of the loop with their far ends.
func several(t *testing.T, l *Loop, n int) (conns []*Conn, fars []*net.TCPConn) {
	t.Helper()
	for range n {
		near, far := wstest.Pair(t)
		conns, fars = append(conns, add(t, l, near, &script{}, nil)), append(fars, far)
	}
	return conns, fars
}

// mustRead reads what is expected from the far end, and then its end if that is to come.
func mustRead(t *testing.T, far *net.TCPConn, want []byte, end bool) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes arrived (%v), or others than the %d that were sent", n, err, len(want))
	}
	if end {
		if n, err := far.Read(got[:1]); n != 0 || err != io.EOF {
			t.Fatalf("after what was sent came %d bytes and %v, want the end", n, err)
		}
	}
}

// What connections write in one event is queued and sent together, in order with what is too long to be queued.
func TestOutboxKeepsTheOrder(t *testing.T) {
	l := group(t, 1).Pick()
	conns, fars := several(t, l, outboxEntries+3)
	want := make([][]byte, len(conns))
	call(t, l, func() {
		for round, size := range []int{1, 1000, maxBatched, 3, maxBatched + 1, 7, 100, 3000} {
			for i, c := range conns {
				b := randomBytes(size, uint64(round*1000+i))
				want[i] = append(want[i], b...)
				c.Write(b)
				c.Write(b[:1]) // once more: it joins the other if there is room
				want[i] = append(want[i], b[0])
			}
			if most := &l.driver.outbox; len(most.bytes) > outboxSize || len(most.entries) > outboxEntries {
				t.Errorf("the outbox has %d bytes in %d entries", len(most.bytes), len(most.entries))
			}
		}
		if len(l.driver.outbox.entries) < 2 {
			t.Error("nothing is put off")
		}
		for _, c := range conns {
			c.CloseWrite()
		}
	})
	for i, far := range fars {
		mustRead(t, far, want[i], true)
	}
}

// What a socket does not take is kept, reported once, and sent when there is room; other connections do not notice.
func TestOutboxFallsShort(t *testing.T) {
	l := group(t, 1).Pick()
	conns, fars := several(t, l, 2)
	slow, quick := conns[0], conns[1]
	stalled, flushed := make(chan int, 1), make(chan struct{})
	slow.handler = &stalling{script{flushed: func(*Conn) { close(flushed) }}, stalled}
	var sent []byte
	for round := 0; len(stalled) == 0; round++ {
		a, b := randomBytes(maxBatched, uint64(round)), randomBytes(100, uint64(round))
		sent = append(sent, a...)
		call(t, l, func() { slow.Write(a); quick.Write(b) })
		mustRead(t, fars[1], b, false)
	}
	if n := wstest.Receive(t, stalled, "Stalled"); n <= 0 || n > maxBatched {
		t.Errorf("%d bytes are kept, want some, and no more than were put off", n)
	}
	last := randomBytes(2000, 99)
	call(t, l, func() { slow.Write(last) })
	mustRead(t, fars[0], append(sent, last...), false)
	wstest.Receive(t, flushed, "Flushed")
}

// stalling is a script that is a [StallHandler]; it passes on how many bytes are kept.
type stalling struct {
	script
	stalled chan int
}

func (s *stalling) Stalled(c *Conn) { s.stalled <- c.Pending() }

// Nothing of a connection is left in the outbox when its descriptor is closed: another connection may get the same one.
func TestOutboxIsSettledBeforeAClose(t *testing.T) {
	l := group(t, 1).Pick()
	conns, fars := several(t, l, 3)
	near, far := wstest.Pair(t)
	socket, err := Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	call(t, l, func() {
		for _, c := range conns {
			c.Write([]byte("last words"))
		}
		conns[1].Close()
		l.Add(socket, &script{}, nil).Write([]byte("first words"))
	})
	mustRead(t, fars[0], []byte("last words"), false)
	mustRead(t, fars[1], []byte("last words"), true)
	mustRead(t, fars[2], []byte("last words"), false)
	mustRead(t, far, []byte("first words"), false)
}

// What is queued stays in order when a connection moves to another loop.
func TestOutboxIsSettledBeforeAMove(t *testing.T) {
	g := group(t, 2)
	a, b := g.Loops()[0], g.Loops()[1]
	conns, fars := several(t, a, 2)
	call(t, a, func() {
		for _, c := range conns {
			c.Write([]byte("here, "))
		}
		Move(b, func() { conns[0].Write([]byte("there")) }, conns[0])
	})
	mustRead(t, fars[0], []byte("here, there"), false)
	mustRead(t, fars[1], []byte("here, "), false)
}

// When a queued send notices that a peer has gone, the end of that connection is reported, and of no other.
func TestOutboxFails(t *testing.T) {
	l := group(t, 1).Pick()
	conns, fars := several(t, l, 3)
	ended := make(chan error, 1)
	call(t, l, func() {
		conns[1].SetHandler(&script{ended: func(_ *Conn, err error) { ended <- err }})
		conns[1].Pause() // so that only writing can notice
	})
	_ = fars[1].SetLinger(0)
	call(t, l, func() {
		_ = fars[1].Close()
		for _, c := range conns {
			c.Write([]byte("hello"))
		}
	})
	if err := wstest.Receive(t, ended, "the end"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the connection ended with %v", err)
	}
	mustRead(t, fars[0], []byte("hello"), false)
	mustRead(t, fars[2], []byte("hello"), false)
}

// A panic in Stalled ends the connections whose writes were sent together, and does not disturb what is sent after it.
func TestOutboxAfterAPanic(t *testing.T) {
	l, values := recovering(t)
	conns, fars := several(t, l, 5)
	call(t, l, func() {
		for _, full := range conns[:2] { // so that a send is left when the first one panics
			full.SetHandler(&panicking{})
			for full.send(make([]byte, 64<<10)) > 0 {
			}
			full.Write([]byte("too much"))
		}
		conns[2].Write([]byte("beside"))
	})
	settle(t, l)
	const rounds = 3
	for range rounds {
		call(t, l, func() {
			conns[3].Write([]byte("after"))
			conns[4].Write([]byte("after"))
		})
	}
	call(t, l, func() { conns[3].CloseWrite(); conns[4].CloseWrite() })
	mustRead(t, fars[2], []byte("beside"), false)
	for _, far := range fars[3:] {
		mustRead(t, far, bytes.Repeat([]byte("after"), rounds), true)
	}
	if got := values(); len(got) != 1 {
		t.Errorf("panics: %v", got)
	}
}

// panicking is a [StallHandler] that panics.
type panicking struct{ script }

func (*panicking) Stalled(*Conn) { panic("stalled") }

// Queuing what many connections write allocates nothing.
func TestOutboxDoesNotAllocate(t *testing.T) {
	l := group(t, 1).Pick()
	conns, fars := several(t, l, 10)
	const rounds = 20
	b := make([]byte, 1000)
	call(t, l, func() {
		if n := testing.AllocsPerRun(rounds, func() {
			for _, c := range conns {
				c.Write(b)
			}
			l.driver.sendOutbox()
		}); n != 0 {
			t.Errorf("%v allocations for %d writes", n, len(conns))
		}
	})
	for _, far := range fars {
		mustRead(t, far, make([]byte, len(b)*(rounds+1)), false)
	}
}

// Everything is sent even if the kernel takes no submissions.
func TestOutboxWithoutTheKernelsHelp(t *testing.T) {
	l := ringed(t)
	conns, fars := several(t, l, 5)
	var fd int
	call(t, l, func() { fd, l.driver.outbox.ring.fd = l.driver.outbox.ring.fd, -1 })
	for range 3 {
		call(t, l, func() {
			for _, c := range conns {
				c.Write([]byte("by itself"))
			}
		})
		for _, far := range fars {
			mustRead(t, far, []byte("by itself"), false)
		}
	}
	call(t, l, func() {
		l.driver.outbox.ring.fd = fd
		for _, c := range conns {
			c.Write([]byte("together"))
		}
	})
	for _, far := range fars {
		mustRead(t, far, []byte("together"), false)
	}
}

// The probe refuses a ring whose submissions the kernel does not take.
func TestProbeRefuses(t *testing.T) {
	r, err := openRing(8, make([]byte, outboxSize))
	if err != nil {
		t.Skip(err)
	}
	defer r.close()
	fd := r.fd
	defer func() { r.fd = fd }()
	r.fd = -1
	if err := r.probe(make([]byte, outboxSize)); err == nil || !strings.Contains(err.Error(), "does not take") {
		t.Errorf("a ring without a kernel is accepted: %v", err)
	}
}

func TestIOURingOptions(t *testing.T) {
	for _, use := range []IOURing{"", IOURingOff} {
		g, err := NewGroup(Options{Max: 1, Interval: time.Hour, IOURing: use})
		if err != nil {
			t.Fatal(err)
		}
		if used, refused := g.IOURing(); used || refused != nil {
			t.Errorf("%q: used %v, refused %v", use, used, refused)
		}
		g.Close()
	}
	if _, err := NewGroup(Options{Max: 1, IOURing: "perhaps"}); err == nil || !strings.Contains(err.Error(), `"perhaps"`) {
		t.Errorf("perhaps: %v", err)
	}
}
