package loop

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestEcho(t *testing.T) {
	g := group(t, 2)
	echo := &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}
	var wg sync.WaitGroup
	for i := range 20 {
		near, far := wstest.Pair(t)
		add(t, g.Pick(), near, echo, nil)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 30 {
				sent := bytes.Repeat([]byte{byte(random.Uint32())}, 1+random.IntN(3000))
				got := make([]byte, len(sent))
				if _, err := far.Write(sent); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("echo differs, %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if loops, _ := g.Stats(); loops[0].Connections != 10 || loops[1].Connections != 10 {
		t.Errorf("connections are not spread: %+v", loops)
	}
}

func TestEarlyBytesComeFirst(t *testing.T) {
	g := group(t, 1)
	early := strings.Repeat("early ", 20000) // more than one read
	tests := []struct {
		name   string
		early  string
		paused bool // added paused, resumed later
	}{
		{"at once", early, false},
		{"after Resume", early, true},
		{"none", "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			near, far := wstest.Pair(t)
			if _, err := far.Write([]byte("late")); err != nil {
				t.Fatal(err)
			}
			_ = far.CloseWrite()
			h := collect()
			socket, err := Detach(near)
			if err != nil {
				t.Fatal(err)
			}
			l := g.Pick()
			var c *Conn
			call(t, l, func() {
				c = l.Add(socket, h, []byte(test.early))
				if test.paused {
					c.Pause()
				}
				if len(h.bytes) > 0 {
					t.Error("presented before Add returned")
				}
			})
			if test.paused {
				settle(t, l)
				on(t, c, func() {
					if len(h.bytes) > 0 || len(h.errs) > 0 {
						t.Errorf("%d bytes and %v while paused", len(h.bytes), h.errs)
					}
					c.Resume()
					if len(h.bytes) > 0 {
						t.Error("presented in the middle of Resume")
					}
				})
			}
			wstest.Receive(t, h.done, "the end")
			if got := string(h.bytes); got != test.early+"late" {
				t.Errorf("%d bytes, ending with %q", len(got), got[max(0, len(got)-20):])
			}
		})
	}
}

// records consumes only whole records, so that the loop has to keep the rest and present it again.
type records struct {
	size  int
	whole [][]byte
	held  chan int // after each event, how many bytes were left
	ended chan int // how many bytes were held at the end
}

func (h *records) Received(_ *Conn, b []byte) int {
	n := 0
	for ; len(b)-n >= h.size; n += h.size {
		h.whole = append(h.whole, bytes.Clone(b[n:n+h.size]))
	}
	clear(b[:n]) // the bytes are the handler's to change
	h.held <- len(b) - n
	return n
}
func (h *records) Flushed(*Conn)          {}
func (h *records) Ended(c *Conn, _ error) { h.ended <- c.Held() }

func TestHeldBytesArePresentedAgain(t *testing.T) {
	const size = MaxHeld
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	h := &records{size: size, held: make(chan int, 1), ended: make(chan int, 1)}
	record := make([]byte, size)
	for i := range record {
		record[i] = byte(i)
	}
	add(t, l, near, h, record[:10])
	if got := wstest.Receive(t, h.held, "the early bytes"); got != 10 {
		t.Fatalf("%d bytes held of the early ones, want 10", got)
	}
	want := [][]byte{record}
	_, _ = far.Write(record[10:])
	wstest.Receive(t, h.held, "the rest of the first record")
	step := 1
	if testing.Short() {
		step = 7
	}
	for cut := 1; cut < 2*size; cut += step {
		record = bytes.Clone(record)
		record[0] = byte(cut)
		two := append(bytes.Clone(record), record...)
		want = append(want, record, record)
		_, _ = far.Write(two[:cut])
		if got := wstest.Receive(t, h.held, "a part"); got != cut%size {
			t.Fatalf("cut at %d: %d bytes held, want %d", cut, got, cut%size)
		}
		_, _ = far.Write(two[cut:])
		if got := wstest.Receive(t, h.held, "the other part"); got != 0 {
			t.Fatalf("cut at %d: %d bytes held after whole records", cut, got)
		}
	}
	_, _ = far.Write(record[:3])
	wstest.Receive(t, h.held, "an unfinished record")
	_ = far.Close()
	if held := wstest.Receive(t, h.ended, "the end"); held != 3 {
		t.Errorf("%d bytes held at the end, want 3", held)
	}
	if !slices.EqualFunc(h.whole, want, bytes.Equal) {
		t.Error("the records differ from what was sent")
	}
}

func TestTooManyBytesHeldPanics(t *testing.T) {
	c := &Conn{handler: &script{received: func(*Conn, []byte) int { return 1 }}}
	c.receive(make([]byte, MaxHeld+1)) // as many as allowed are left
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.receive(make([]byte, MaxHeld+2))
}

func TestEOFIsReportedOnceAndWritingGoesOn(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	h := collect()
	c := add(t, l, near, h, nil)
	_, _ = far.Write([]byte("question"))
	_ = far.CloseWrite()
	wstest.Receive(t, h.done, "the end")
	on(t, c, func() {
		c.Write([]byte("answer"))
		c.CloseWrite()
		c.CloseWrite() // a second call does no harm
	})
	if got, err := io.ReadAll(far); string(got) != "answer" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	settle(t, l)
	on(t, c, func() {
		if string(h.bytes) != "question" || len(h.errs) != 1 || h.errs[0] != io.EOF {
			t.Errorf("%q, %v", h.bytes, h.errs)
		}
		if !c.Ended() || c.Closed() {
			t.Errorf("ended %v, closed %v", c.Ended(), c.Closed())
		}
		c.Close()
		c.Close()
		c.Write([]byte("this is not sent"))
		c.CloseWrite()
		if !c.Closed() || c.Pending() != 0 {
			t.Error("not closed")
		}
	})
	if n := l.load.Load(); n != 0 {
		t.Errorf("the loop counts %d connections", n)
	}
}

func TestResetIsReportedOnce(t *testing.T) {
	tests := []struct {
		name   string
		paused bool
	}{
		{"while reading", false},
		{"while paused", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if portable && test.paused {
				t.Skip("the portable driver notices it on Resume")
			}
			l := group(t, 1).Pick()
			near, far := wstest.Pair(t)
			h := collect()
			c := add(t, l, near, h, nil)
			if test.paused {
				on(t, c, c.Pause)
			}
			_ = far.SetLinger(0)
			_ = far.Close()
			wstest.Receive(t, h.done, "the end")
			on(t, c, func() {
				for range 3 {
					c.Write([]byte("this is not sent"))
				}
				if c.Pending() != 0 && !portable {
					t.Errorf("%d bytes are kept for a peer that has gone", c.Pending())
				}
				c.Resume()
			})
			settle(t, l)
			on(t, c, func() {
				if len(h.errs) != 1 || h.errs[0] == nil || h.errs[0] == io.EOF {
					t.Errorf("ended with %v", h.errs)
				}
				c.Close()
			})
		})
	}
}

// A server that closes a socket with unread input sends a reset right after its last bytes. A write that fails because of the
// reset must not lose these bytes: they hold the close code.
func TestLastWordsBeforeAReset(t *testing.T) {
	l := group(t, 1).Pick()
	nearA, farA := wstest.Pair(t)
	nearB, farB := wstest.Pair(t)
	h := collect()
	b := add(t, l, nearB, h, nil)
	a := &script{received: func(_ *Conn, bytes []byte) int {
		for range 3 {
			b.Write(bytes)
		}
		return len(bytes)
	}}
	add(t, l, nearA, a, nil)
	on(t, b, func() { b.Write([]byte("never read")) })
	one := make([]byte, 1)
	if _, err := io.ReadFull(farB, one); err != nil {
		t.Fatal(err)
	}
	release := hold(t, l)
	_, _ = farA.Write([]byte("x")) // handled first
	_, _ = farB.Write([]byte("last words"))
	_ = farB.Close() // with something unread, so it sends a reset
	release()
	wstest.Receive(t, h.done, "the end")
	settle(t, l)
	on(t, b, func() {
		if string(h.bytes) != "last words" {
			t.Errorf("received %q", h.bytes)
		}
		if len(h.errs) != 1 || errors.Is(h.errs[0], io.EOF) {
			t.Errorf("ended with %v, not with the reset", h.errs)
		}
	})
}

// This also holds while reading is paused, since the last words cannot be passed on yet: the end is reported when reading is resumed, unless the
// handler wants to know at once, or something is kept that the socket will never take.
func TestLastWordsBeforeAResetWhilePaused(t *testing.T) {
	if portable {
		t.Skip("the portable driver notices it on Resume")
	}
	g := group(t, 2)
	l := g.Loops()[0]
	for name, test := range map[string]struct {
		ending bool // the handler is an [EndingHandler]
		unread bool // the peer leaves something unread, so it resets the connection when it closes it
		before func(b *Conn)
		after  func(b *Conn)
		lost   bool
	}{
		"a reset":                              {unread: true},
		"a reset that a write notices":         {unread: true, after: func(b *Conn) { b.Write([]byte("too late")) }},
		"an orderly end, and a reset after it": {after: func(b *Conn) { b.Write([]byte("too late")) }},
		"a handler that wants to know":         {unread: true, ending: true, lost: true},
		"something is kept": {unread: true, lost: true, before: func(b *Conn) {
			for b.Pending() == 0 {
				b.Write(make([]byte, 64<<10))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := wstest.Pair(t)
			collected := collect()
			var h Handler = collected
			if test.ending {
				h = attentive{collected}
			}
			b := add(t, l, near, h, nil)
			sent := []byte("hello")
			on(t, b, func() { b.Pause(); b.Write(sent) })
			if test.unread {
				sent = sent[:1]
			}
			if _, err := io.ReadFull(far, sent); err != nil {
				t.Fatal(err)
			}
			on(t, b, func() { // so that the write comes before the event
				if test.before != nil {
					test.before(b)
				}
				_, _ = far.Write([]byte("last words"))
				_ = far.Close()
				if test.after != nil {
					test.after(b)
				}
			})
			if test.lost {
				wstest.Receive(t, collected.done, "the end")
				return
			}
			settle(t, l)
			on(t, b, func() {
				if len(collected.errs) > 0 || len(collected.bytes) > 0 {
					t.Errorf("%q, %v while paused", collected.bytes, collected.errs)
				}
			})
			on(t, b, func() { Move(g.Loops()[1], func() {}, b) })
			settle(t, g.Loops()[1])
			on(t, b, b.Resume)
			wstest.Receive(t, collected.done, "the end")
			settle(t, g.Loops()[1])
			on(t, b, func() {
				if string(collected.bytes) != "last words" {
					t.Errorf("received %q", collected.bytes)
				}
				if len(collected.errs) != 1 || errors.Is(collected.errs[0], io.EOF) {
					t.Errorf("ended with %v, not with the reset", collected.errs)
				}
			})
		})
	}
}

// So must what the handler has kept not be lost in a reset that comes behind it.
func TestKeptBeforeAReset(t *testing.T) {
	if portable {
		t.Skip("the portable driver notices it on Resume")
	}
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	h := &keeping{collector: collect()}
	b := add(t, l, near, h, nil)
	on(t, b, func() { b.Write([]byte("unread, so that closing resets")) })
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_, _ = far.Write([]byte("last words"))
	wstest.Eventually(t, "they are kept", func() (kept bool) {
		on(t, b, func() { kept = b.Kept() > 0 })
		return kept
	})
	_ = far.Close()
	for range 3 {
		settle(t, l)
		on(t, b, func() {
			if len(h.errs)+len(h.bytes) > 0 {
				t.Errorf("%q, %v while paused", h.bytes, h.errs)
			}
		})
	}
	on(t, b, b.Resume)
	wstest.Receive(t, h.done, "the end")
	settle(t, l)
	on(t, b, func() {
		if string(h.bytes) != "last words" || len(h.errs) != 1 || errors.Is(h.errs[0], io.EOF) {
			t.Errorf("received %q, ended with %v", h.bytes, h.errs)
		}
	})
}

// keeping is a collector that keeps the first that it gets.
type keeping struct {
	*collector
	kept bool
}

func (h *keeping) Received(c *Conn, b []byte) int {
	if !h.kept {
		h.kept = true
		c.PauseBefore(b)
		return len(b)
	}
	return h.collector.Received(c, b)
}

// attentive is a collector that is an [EndingHandler].
type attentive struct{ *collector }

func (attentive) Ending(*Conn) {}

// When both sides have ended their streams in order, epoll reports it even while reading is paused. What is unread must not be lost
// then.
func TestOrderlyEndWhilePaused(t *testing.T) {
	g := group(t, 2)
	l := g.Loops()[0]
	near, far := wstest.Pair(t)
	h := collect()
	c := add(t, l, near, h, nil)
	on(t, c, func() {
		c.Pause()
		c.CloseWrite()
	})
	if _, err := io.ReadAll(far); err != nil {
		t.Fatal(err)
	}
	_, _ = far.Write([]byte("the rest"))
	_ = far.Close()
	settle(t, l)
	on(t, c, func() {
		if len(h.errs) > 0 || len(h.bytes) > 0 {
			t.Errorf("%q, %v while paused", h.bytes, h.errs)
		}
	})
	on(t, c, func() { Move(g.Loops()[1], func() {}, c) }) // the bytes must survive a move, too
	settle(t, g.Loops()[1])
	on(t, c, c.Resume)
	wstest.Receive(t, h.done, "the end")
	if string(h.bytes) != "the rest" || h.errs[0] != io.EOF {
		t.Errorf("%q, %v", h.bytes, h.errs)
	}
}

func TestCloseWriteAfterPendingOutput(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	sent := randomBytes(8<<20, 1)
	flushed := make(chan struct{})
	c := add(t, l, near, &script{flushed: func(*Conn) { close(flushed) }}, nil)
	on(t, c, func() {
		c.Write(sent[:1000])
		c.Write(sent[1000 : 7<<20])
		c.Write(sent[7<<20:]) // after what is kept
		c.CloseWrite()
		if c.Pending() == 0 {
			t.Error("8 MiB went into the socket at once; the test needs some to be kept")
		}
	})
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(sent))
	}
	wstest.Receive(t, flushed, "Flushed")
	on(t, c, func() {
		if c.Pending() != 0 {
			t.Errorf("%d bytes pending after Flushed", c.Pending())
		}
	})
}

func TestCloseInsideHandlers(t *testing.T) {
	tests := []struct {
		name    string
		handler func(done chan<- struct{}) *script
		act     func(t *testing.T, c *Conn, far io.ReadWriteCloser)
	}{
		{
			"Received", func(done chan<- struct{}) *script {
				return &script{received: func(c *Conn, b []byte) int { c.Close(); done <- struct{}{}; return 0 }}
			},
			func(_ *testing.T, _ *Conn, far io.ReadWriteCloser) { _, _ = far.Write([]byte("x")) },
		},
		{
			"Flushed", func(done chan<- struct{}) *script {
				return &script{flushed: func(c *Conn) { c.Close(); done <- struct{}{} }}
			},
			func(t *testing.T, c *Conn, far io.ReadWriteCloser) {
				// Read only after the write: with a reader at the far end the socket can take it all, and nothing is flushed later.
				on(t, c, func() {
					c.Write(make([]byte, 8<<20))
					if c.Pending() == 0 {
						t.Error("8 MiB went into the socket at once; the test needs some to be kept")
					}
				})
				_, _ = io.CopyN(io.Discard, far, 8<<20)
			},
		},
		{
			"Ended", func(done chan<- struct{}) *script {
				return &script{ended: func(c *Conn, _ error) { c.Close(); done <- struct{}{} }}
			},
			func(_ *testing.T, _ *Conn, far io.ReadWriteCloser) { _ = far.Close() },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := group(t, 1).Pick()
			near, far := wstest.Pair(t)
			done := make(chan struct{}, 10)
			h := test.handler(done)
			ended := h.ended
			h.ended = func(c *Conn, err error) {
				if c.Closed() {
					t.Errorf("Ended after Close: %v", err)
				}
				if ended != nil {
					ended(c, err)
				}
			}
			c := add(t, l, near, h, nil)
			test.act(t, c, far)
			wstest.Receive(t, done, "the handler")
			if _, err := far.Read(make([]byte, 1)); err == nil {
				t.Error("the peer's connection is still open")
			}
			settle(t, l)
			if len(done) > 0 {
				t.Error("called again after Close")
			}
			if n := l.load.Load(); n != 0 {
				t.Errorf("the loop counts %d connections", n)
			}
		})
	}
}

// One handler closes all other connections while their events wait in the same batch.
func TestCloseOthersInTheSameBatch(t *testing.T) {
	l := group(t, 1).Pick()
	const n = 20
	conns := make([]*Conn, n)
	events := 0
	done := make(chan struct{})
	h := &script{received: func(c *Conn, b []byte) int {
		if c.Closed() {
			t.Error("received by a closed connection")
		}
		events++
		for _, other := range conns {
			other.Close()
		}
		close(done)
		return len(b)
	}}
	var fars []io.Writer
	for i := range conns {
		near, far := wstest.Pair(t)
		conns[i] = add(t, l, near, h, nil)
		fars = append(fars, far)
	}
	release := hold(t, l)
	for _, far := range fars {
		_, _ = far.Write([]byte("x"))
	}
	release()
	wstest.Receive(t, done, "an event")
	settle(t, l)
	call(t, l, func() {
		if events != 1 || l.conns != 0 {
			t.Errorf("%d events, %d connections left", events, l.conns)
		}
	})
}

// A connection is closed after its end was seen, and before it is reported.
func TestCloseBeforeTheEndIsReported(t *testing.T) {
	l := group(t, 1).Pick()
	nearA, farA := wstest.Pair(t)
	nearB, farB := wstest.Pair(t)
	b := add(t, l, nearB, &script{ended: func(c *Conn, err error) {
		if c.Closed() {
			t.Errorf("Ended was called for a closed connection, with %v", err)
		}
	}}, nil)
	done := make(chan struct{})
	add(t, l, nearA, &script{received: func(_ *Conn, bytes []byte) int {
		b.Close()
		close(done)
		return len(bytes)
	}}, nil)
	release := hold(t, l)
	_ = farB.Close() // seen first
	_, _ = farA.Write([]byte("x"))
	release()
	wstest.Receive(t, done, "the other's event")
	settle(t, l)
}

// Reading is resumed in the same batch in which epoll reports something. What came early is still presented first.
func TestEarlyBytesComeFirstOfABatch(t *testing.T) {
	l := group(t, 1).Pick()
	nearA, farA := wstest.Pair(t)
	nearB, farB := wstest.Pair(t)
	h := collect()
	socket, err := Detach(nearB)
	if err != nil {
		t.Fatal(err)
	}
	var b *Conn
	call(t, l, func() {
		b = l.Add(socket, h, []byte("early "))
		b.Pause()
		b.CloseWrite() // from now on epoll reports the peer's end even while reading is paused
	})
	add(t, l, nearA, &script{received: func(_ *Conn, bytes []byte) int {
		b.Resume()
		return len(bytes)
	}}, nil)
	release := hold(t, l)
	_, _ = farA.Write([]byte("x"))
	_, _ = farB.Write([]byte("late"))
	_ = farB.Close()
	release()
	wstest.Receive(t, h.done, "the end")
	if string(h.bytes) != "early late" {
		t.Errorf("received %q", h.bytes)
	}
}

// The next connection may get the descriptor of a closed one while events of that are still in the batch. They must not reach
// the new connection.
func TestDescriptorIsReusedWithinABatch(t *testing.T) {
	l := group(t, 1).Pick()
	nearFirst, farFirst := wstest.Pair(t)
	nearOld, farOld := wstest.Pair(t)
	nearNew, farNew := wstest.Pair(t)
	fresh := collect()
	var replacement *Conn
	old := add(t, l, nearOld, &script{ended: func(c *Conn, _ error) {
		if c.Closed() {
			t.Error("Ended was called for the closed connection")
		}
	}}, nil)
	replaced := make(chan struct{})
	add(t, l, nearFirst, &script{received: func(_ *Conn, b []byte) int {
		old.Close()
		socket, err := Detach(nearNew) // gets the lowest free descriptor
		if err != nil {
			t.Error(err)
		}
		replacement = l.Add(socket, fresh, nil)
		replacement.Pause() // so that only an event of the old connection could report an end
		close(replaced)
		return len(b)
	}}, nil)
	release := hold(t, l)
	_, _ = farFirst.Write([]byte("x"))
	_ = farOld.SetLinger(0)
	_ = farOld.Close()
	release()
	wstest.Receive(t, replaced, "the replacement")
	settle(t, l)
	on(t, replacement, func() {
		if len(fresh.errs) > 0 {
			t.Errorf("Ended was called for the new connection, with %v", fresh.errs)
		}
		replacement.Resume()
	})
	_, _ = farNew.Write([]byte("hello"))
	_ = farNew.Close()
	wstest.Receive(t, fresh.done, "the end of the new connection")
	if string(fresh.bytes) != "hello" || fresh.errs[0] != io.EOF {
		t.Errorf("%q, %v", fresh.bytes, fresh.errs)
	}
}

func TestSetHandler(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	second, changed := collect(), make(chan struct{})
	first := &script{received: func(c *Conn, b []byte) int {
		c.SetHandler(second)
		close(changed)
		return 1 // the rest is for the other handler
	}}
	add(t, l, near, first, nil)
	_, _ = far.Write([]byte("ab"))
	wstest.Receive(t, changed, "the first handler")
	_, _ = far.Write([]byte("cd"))
	_ = far.Close()
	wstest.Receive(t, second.done, "the end")
	if string(second.bytes) != "bcd" {
		t.Errorf("the second handler got %q", second.bytes)
	}
}
