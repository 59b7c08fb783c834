package loop

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func randomBytes(n int, seed uint64) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = random.Read(b)
	return b
}

// A receiver that does not read stalls the sender, and the loop keeps no more than one read. Once it reads, everything arrives.
func TestBackpressure(t *testing.T) {
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) { testBackpressure(t, dial) })
	}
}

// mostPending is one read, and what TLS adds to it.
const mostPending = readSize + readSize/100

func testBackpressure(t *testing.T, dial dialer) {
	const size = 32 << 20
	l := group(t, 1).Pick()
	client, server, a, _, ca, cb := relayed(t, dial, l, nil)
	sent := randomBytes(size, 1)
	var written atomic.Int64
	var sender sync.WaitGroup
	sender.Go(func() {
		for b := sent; len(b) > 0; {
			n, err := client.Write(b[:min(len(b), 10000)])
			if err != nil {
				t.Error(err)
				return
			}
			written.Add(int64(n))
			b = b[n:]
		}
		_ = client.CloseWrite()
	})
	// The sockets' buffers fill, and then nothing moves: what is pending stays, the source stays paused, and nothing more is
	// read from it.
	for last, same := int64(-1), 0; same < 50; {
		on(t, ca, func() {
			n := cb.Pending()
			if n > mostPending {
				t.Errorf("%d bytes pending, want at most one read", n)
				same = 50
				return
			}
			if now := written.Load(); n == 0 || now != last {
				last, same = now, 0
			} else {
				same++
			}
			if n > 0 && !ca.paused {
				t.Error("the source is read though the other side is full")
			}
		})
	}
	if n := written.Load(); n == size {
		t.Fatalf("all %d bytes were taken though the peer reads none", n)
	}
	hash := sha256.New()
	n, err := io.Copy(hash, server)
	sender.Wait()
	if err != nil || n != size {
		t.Errorf("%d bytes, %v; want %d", n, err, size)
	}
	if want := sha256.Sum256(sent); string(hash.Sum(nil)) != string(want[:]) {
		t.Error("what arrived differs from what was sent")
	}
	if most := a.most.Load(); most > mostPending {
		t.Errorf("up to %d bytes were kept, more than one read", most)
	}
	_ = server.CloseWrite()
	if _, err := io.ReadAll(client); err != nil {
		t.Error(err)
	}
}

// While the receiver does not read, the sender can only fill the sockets' buffers.
func TestPauseStopsTheSource(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	h := collect()
	c := add(t, l, near, h, nil)
	on(t, c, c.Pause)
	wrote := make(chan int64)
	go func() {
		_, _ = far.Write(make([]byte, 64<<20)) // far more than the buffers hold
		wrote <- 1
	}()
	settle(t, l)
	on(t, c, func() {
		if len(h.bytes) != 0 {
			t.Errorf("%d bytes received while paused", len(h.bytes))
		}
		c.Close()
	})
	wstest.Receive(t, wrote, "the writer to give up")
	if len(h.bytes) != 0 {
		t.Errorf("%d bytes received while paused", len(h.bytes))
	}
}

// exchange sends size bytes each way and checks what arrives.
func exchange(t *testing.T, client, server stream, size int, seed uint64) {
	var wg sync.WaitGroup
	direction := func(from, to stream, seed uint64) {
		sent := randomBytes(size, seed)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for b := sent; len(b) > 0; {
				n := min(len(b), 1+random.IntN(8000))
				if _, err := from.Write(b[:n]); err != nil {
					t.Errorf("writing: %v", err)
					return
				}
				b = b[n:]
			}
			_ = from.CloseWrite()
		})
		wg.Go(func() {
			hash := sha256.New()
			n, err := io.Copy(hash, to)
			if want := sha256.Sum256(sent); err != nil || string(hash.Sum(nil)) != string(want[:]) {
				t.Errorf("%d of %d bytes arrived, or others: %v", n, size, err)
			}
		})
	}
	direction(client, server, 2*seed)
	direction(server, client, 2*seed+1)
	wg.Wait()
}

// Sessions move between loops at random, from outside and by their own handlers, while data flows both ways.
func TestMoveUnderTraffic(t *testing.T) {
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) { testMoveUnderTraffic(t, dial) })
	}
}

func testMoveUnderTraffic(t *testing.T, dial dialer) {
	const sessions = 12
	g := group(t, 3)
	w := goroutinesOf(t, g)
	var moves atomic.Int64
	var wg, mover sync.WaitGroup
	quit := make(chan struct{})
	for i := range sessions {
		client, server, a, b, ca, cb := relayed(t, dial, g.Pick(), w)
		random := rand.New(rand.NewPCG(7, uint64(i))) // used on the loop of the session
		asked := false                                // by one of the two handlers, in this event
		move := func() {
			w.check(ca.Loop())
			asked = false
			if ca.Closed() || cb.Closed() {
				return
			}
			to := g.Loops()[random.IntN(3)]
			Move(to, func() {
				moves.Add(1)
				w.check(to)
				if ca.Loop() != to || cb.Loop() != to {
					t.Error("moved is called before the connections have arrived")
				}
			}, ca, cb)
		}
		onEvent := func(c *Conn) {
			if !asked && random.IntN(20) == 0 {
				asked = true
				c.Loop().Later(move)
			}
		}
		on(t, ca, func() { a.onEvent, b.onEvent = onEvent, onEvent })
		mover.Go(func() {
			for {
				moved := make(chan struct{})
				ca.Post(func() { move(); close(moved) })
				select {
				case <-quit:
					return
				case <-moved:
				}
			}
		})
		wg.Go(func() { exchange(t, client, server, 2<<20, uint64(i)) })
	}
	wg.Wait()
	close(quit)
	mover.Wait()
	if moves.Load() < sessions {
		t.Errorf("only %d moves", moves.Load())
	}
	for _, l := range g.Loops() {
		settle(t, l)
		if n := l.load.Load(); n != 0 {
			t.Errorf("loop %d still counts %d connections", l.ID(), n)
		}
	}
}

// A handler asks for a move while the other connection's end, or bytes held back for it, are about to be reported.
func TestMoveBeforeWhatWasPutOff(t *testing.T) {
	g := group(t, 2)
	w := goroutinesOf(t, g)
	from, to := g.Loops()[0], g.Loops()[1]
	nearA, farA := wstest.Pair(t)
	nearB, farB := wstest.Pair(t)
	nearC, _ := wstest.Pair(t)
	ended, early := make(chan error, 1), make(chan string, 1)
	now := from // the loop that they are on; owned by that loop
	b := add(t, from, nearB, &script{ended: func(c *Conn, err error) {
		w.check(now)
		ended <- err
	}}, nil)
	socket, err := Detach(nearC)
	if err != nil {
		t.Fatal(err)
	}
	var c *Conn
	call(t, from, func() {
		c = from.Add(socket, &script{received: func(c *Conn, b []byte) int {
			w.check(now)
			early <- string(b)
			return len(b)
		}}, []byte("early"))
		c.Pause()
	})
	var a *Conn
	a = add(t, from, nearA, &script{received: func(_ *Conn, bytes []byte) int {
		from.Later(func() {
			now = to
			Move(to, func() {}, a, b, c)
		})
		c.Resume()
		return len(bytes)
	}}, nil)
	release := hold(t, from)
	_, _ = farA.Write([]byte("x"))
	_ = farB.Close() // in the same batch
	release()
	if err := wstest.Receive(t, ended, "the end of the moved connection"); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	if got := wstest.Receive(t, early, "the early bytes of the moved connection"); got != "early" {
		t.Errorf("early bytes %q", got)
	}
	on(t, c, func() { w.check(to) })
}

// A connection that is moved on as soon as it arrives must still be found by Post.
func TestPostFollowsTheConnection(t *testing.T) {
	g := group(t, 3)
	w := goroutinesOf(t, g)
	near, _ := wstest.Pair(t)
	c := add(t, g.Loops()[0], near, &script{}, nil)
	const hops = 3000
	arrived := make(chan struct{})
	var hop func()
	n := 0 // owned by the connection's loop
	hop = func() {
		w.check(c.Loop())
		if n++; n == hops {
			close(arrived)
			return
		}
		Move(g.Loops()[(c.Loop().ID()+1)%3], hop, c)
	}
	var ran, posted atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-arrived:
					return
				default:
				}
				done := make(chan struct{})
				posted.Add(1)
				if !c.Post(func() {
					w.check(c.Loop())
					ran.Add(1)
					close(done)
				}) {
					t.Error("refused")
					return
				}
				wstest.Receive(t, done, "a posted function")
			}
		})
	}
	on(t, c, hop)
	wstest.Receive(t, arrived, "the last hop")
	wg.Wait()
	if ran.Load() != posted.Load() || ran.Load() == 0 {
		t.Errorf("%d of %d posted functions ran", ran.Load(), posted.Load())
	}
	on(t, c, func() {
		if c.home.Load() != c.Loop() {
			t.Errorf("the connection is on loop %d, but Post looks for it on loop %d", c.Loop().ID(), c.home.Load().ID())
		}
	})
}

func TestMoveLeavesClosedConnections(t *testing.T) {
	g := group(t, 2)
	from, to := g.Loops()[0], g.Loops()[1]
	near, _ := wstest.Pair(t)
	c := add(t, from, near, &script{}, nil)
	moved := make(chan struct{})
	on(t, c, func() {
		c.Close()
		Move(to, func() { close(moved) }, c)
	})
	wstest.Receive(t, moved, "the move")
	settle(t, to)
	if n, m := from.load.Load(), to.load.Load(); n != 0 || m != 0 {
		t.Errorf("the loops count %d and %d connections", n, m)
	}
}

func TestMoveToAStoppedLoop(t *testing.T) {
	g := group(t, 2)
	from, to := g.Loops()[0], g.Loops()[1]
	near, far := wstest.Pair(t)
	c := add(t, from, near, &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}, nil)
	to.stop()
	on(t, c, func() {
		if Move(to, func() { t.Error("moved was called") }, c) {
			t.Error("Move says that it worked")
		}
		if c.Loop() != from {
			t.Error("the connection is no longer on its loop")
		}
	})
	_, _ = far.Write([]byte("still here"))
	got := make([]byte, 10)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "still here" {
		t.Errorf("%q, %v", got, err)
	}
	if n := from.load.Load(); n != 1 {
		t.Errorf("the loop counts %d connections", n)
	}
}

func TestMoveToTheSameLoop(t *testing.T) {
	l := group(t, 1).Pick()
	near, _ := wstest.Pair(t)
	c := add(t, l, near, &script{}, nil)
	on(t, c, func() {
		called := false
		if !Move(l, func() { called = true }, c) || !called || l.conns != 1 {
			t.Errorf("called %v, %d connections", called, l.conns)
		}
	})
}

// steady returns a function that sends 1 KiB through a pair of relays and reads it back out.
func steady(tb testing.TB, dial dialer) func() {
	client, server, _, _, _, _ := relayed(tb, dial, group(tb, 1).Pick(), nil)
	tb.Cleanup(func() { // in order, and with nothing unread, which the relays would report
		_, _ = client.CloseWrite(), server.CloseWrite()
		_, _ = io.Copy(io.Discard, server)
		_, _ = io.Copy(io.Discard, client)
	})
	message, got := make([]byte, 1<<10), make([]byte, 1<<10)
	return func() {
		if _, err := client.Write(message); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.ReadFull(server, got); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestRelayDoesNotAllocate(t *testing.T) {
	if portable {
		t.Skip("the portable driver posts a function for each read and write")
	}
	// AllocsPerRun sets GOMAXPROCS to 1, so the loops would have no processors.
	if n := testing.Benchmark(BenchmarkRelay).AllocsPerOp(); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}

func BenchmarkRelay(b *testing.B) { benchmarkRelay(b, plain) }

func benchmarkRelay(b *testing.B, dial dialer) {
	send := steady(b, dial)
	b.SetBytes(1 << 10)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}
