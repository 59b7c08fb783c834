package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// stream is a connection that can be ended in one direction.
type stream interface {
	net.Conn
	CloseWrite() error
}

// dialer returns the two ends of a connection.
type dialer func(t testing.TB) (near net.Conn, far stream)

// plain is the dialer of TCP connections.
func plain(t testing.TB) (near net.Conn, far stream) { return wstest.Pair(t) }

// dialers are the kinds of connections that must all behave the same.
var dialers = func() map[string]dialer {
	all := map[string]dialer{"plain": plain, "TLS 1.2": securedBy(tls.VersionTLS12), "TLS 1.3": securedBy(tls.VersionTLS13)}
	if !portable { // there, crypto/tls keeps all connections
		all["TLS 1.3 as server"] = variant{version: tls.VersionTLS13, serves: true}.dial
		all["crypto/tls"] = variant{version: tls.VersionTLS13, byCrypto: true}.dial
	}
	return all
}()

// group starts n loops, all awake, whose governor never decides anything.
func group(t testing.TB, n int) *Group {
	t.Helper()
	g, err := NewGroup(Options{Min: n, Max: n, Interval: time.Hour, IOURing: IOURing(*ioURing)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// add makes a loop's connection of nc.
func add(t testing.TB, l *Loop, nc net.Conn, h Handler, early []byte) *Conn {
	t.Helper()
	socket, err := Detach(nc)
	if err != nil {
		t.Fatal(err)
	}
	var c *Conn
	call(t, l, func() { c = l.Add(socket, h, early) })
	return c
}

func call(t testing.TB, l *Loop, f func()) {
	t.Helper()
	if !l.Call(f) {
		t.Fatal("the loop has been stopped")
	}
}

// settle returns when the loop has handled what its sockets had received before.
func settle(t testing.TB, l *Loop) {
	t.Helper()
	for range 3 {
		call(t, l, func() {})
	}
}

// on calls f on the connection's loop and waits for it.
func on(t testing.TB, c *Conn, f func()) {
	t.Helper()
	done := make(chan struct{})
	if !c.Post(func() { f(); close(done) }) {
		t.Fatal("the loop has been stopped")
	}
	wstest.Receive(t, done, "a function posted to a connection")
}

// hold blocks the loop until the returned function is called, so that what happens meanwhile comes in one batch.
func hold(t testing.TB, l *Loop) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	if !l.Post(func() { close(entered); <-leave }) {
		t.Fatal("the loop has been stopped")
	}
	wstest.Receive(t, entered, "the loop to be held")
	release = sync.OnceFunc(func() { close(leave) })
	t.Cleanup(release)
	return release
}

// script is a handler made of functions; those that are nil consume everything and do nothing.
type script struct {
	received func(c *Conn, b []byte) int
	flushed  func(c *Conn)
	ended    func(c *Conn, err error)
}

func (s *script) Received(c *Conn, b []byte) int {
	if s.received == nil {
		return len(b)
	}
	return s.received(c, b)
}

func (s *script) Flushed(c *Conn) {
	if s.flushed != nil {
		s.flushed(c)
	}
}

func (s *script) Ended(c *Conn, err error) {
	if s.ended != nil {
		s.ended(c, err)
	}
}

// collector gathers what arrives. Its fields belong to the loop until done is closed by the first Ended.
type collector struct {
	bytes []byte
	errs  []error
	done  chan struct{}
	grew  chan int // if not nil, gets the length whenever something arrived
}

func collect() *collector { return &collector{done: make(chan struct{})} }

func (h *collector) Received(_ *Conn, b []byte) int {
	h.bytes = append(h.bytes, b...)
	if h.grew != nil {
		h.grew <- len(h.bytes)
	}
	return len(b)
}

func (h *collector) Flushed(*Conn) {}

func (h *collector) Ended(_ *Conn, err error) {
	h.errs = append(h.errs, err)
	if len(h.errs) == 1 {
		close(h.done)
	}
}

// goroutineID returns the number of the calling goroutine. Only the text of its stack has it.
func goroutineID() int64 {
	var buf [64]byte
	text := buf[len("goroutine "):runtime.Stack(buf[:], false)]
	text, _, _ = bytes.Cut(text, []byte(" "))
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

// goroutines knows the goroutines of a group's loops, and counts what ran on a wrong one.
type goroutines struct {
	ids   map[*Loop]int64
	wrong atomic.Int64
}

func goroutinesOf(t testing.TB, g *Group) *goroutines {
	t.Helper()
	w := &goroutines{ids: map[*Loop]int64{}}
	for _, l := range g.Loops() {
		var id int64
		call(t, l, func() { id = goroutineID() })
		w.ids[l] = id
	}
	t.Cleanup(func() {
		if n := w.wrong.Load(); n != 0 {
			t.Errorf("%d calls on a wrong loop", n)
		}
	})
	return w
}

func (w *goroutines) check(l *Loop) {
	if goroutineID() != w.ids[l] {
		w.wrong.Add(1)
	}
}

// relay copies from its connection to peer, the way a session does: nothing is read while the other side is full.
type relay struct {
	t          testing.TB
	peer       *Conn
	goroutines *goroutines   // may be nil
	onEvent    func(c *Conn) // may be nil; called for each run of bytes
	most       atomic.Int64  // largest Pending seen
}

func (r *relay) enter(c *Conn) {
	if r.goroutines != nil {
		r.goroutines.check(c.Loop())
		if r.peer.Loop() != c.Loop() {
			r.goroutines.wrong.Add(1)
		}
	}
}

func (r *relay) Received(c *Conn, b []byte) int {
	r.enter(c)
	if r.peer.Stalled() {
		r.t.Error("received while the other side is full")
	}
	r.peer.Write(b)
	if r.peer.Stalled() {
		r.stalled()
		c.Pause()
	}
	if r.onEvent != nil {
		r.onEvent(c)
	}
	return len(b)
}

func (r *relay) Stalled(c *Conn) {
	r.enter(c)
	r.peer.handler.(*relay).stalled()
	r.peer.Pause()
}

// stalled notes how many bytes are kept for the other side.
func (r *relay) stalled() { r.most.Store(max(r.most.Load(), int64(r.peer.Pending()))) }

func (r *relay) Flushed(c *Conn) {
	r.enter(c)
	r.peer.Resume()
}

func (r *relay) Ended(c *Conn, err error) {
	r.enter(c)
	if err != io.EOF {
		r.t.Errorf("a relayed connection ended with %v", err)
	}
	r.peer.CloseWrite()
	if r.peer.Ended() && r.peer.Pending() == 0 && c.Pending() == 0 {
		r.peer.Close()
		c.Close()
	}
}

// relayed joins two connections made by dial by a pair of relays on loop l and returns the far ends.
func relayed(t testing.TB, dial dialer, l *Loop, w *goroutines) (client, server stream, a, b *relay, ca, cb *Conn) {
	t.Helper()
	nearA, client := dial(t)
	nearB, server := dial(t)
	a, b = &relay{t: t, goroutines: w}, &relay{t: t, goroutines: w}
	socketA, errA := Detach(nearA)
	socketB, errB := Detach(nearB)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	call(t, l, func() {
		ca, cb = l.Add(socketA, a, nil), l.Add(socketB, b, nil)
		a.peer, b.peer = cb, ca
	})
	return client, server, a, b, ca, cb
}
