package backend

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// What the server still owes is dropped, and then the connection is idle again, with nothing of it left.
func TestResetDropsLateAnswers(t *testing.T) {
	r := newRig(t, "echo", nil)
	r.ready(1)
	p := r.accepted()
	for range 3 { // the counts go on from session to session
		s := r.use()
		for _, text := range []string{"1", "2", "3"} {
			s.ask(text)
			p.expect(frame.Text, text)
		}
		p.send(frame.Text, "1")
		second := wire(true, frame.Text, "the second answer")
		p.write(second[:7])
		s.hear(len(wire(true, frame.Text, "1")) + 7)
		if v := s.end(3); v != profile.Await {
			t.Fatalf("verdict %v", v)
		}
		if _, ok := r.Lease(); ok {
			t.Fatal("a connection that is being reset was leased")
		}
		p.write(second[7:])
		p.send(frame.Ping, "in between")
		p.expect(frame.Pong, "in between")
		if st := r.Stats(); st.Resetting != 1 {
			t.Fatalf("stats: %+v", st)
		}
		p.write(append(wire(false, frame.Text, "third"), wire(true, frame.Continuation, "")...))
		r.ready(1)
		s.on(func() {
			if s.conn.timer.Active() {
				t.Error("the limit of the reset is still running")
			}
		})
		if len(s.received) > 20 {
			t.Errorf("the session got %q", s.received)
		}
	}
	if s := r.Stats().Totals; s.Dialed != 1 || s.Returned != 3 || s.Discarded != 0 {
		t.Errorf("totals: %+v", s)
	}
}

// Whatever else comes of a reset costs the connection.
func TestResetFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		play   func(*peer)
		code   frame.CloseCode // of the close frame that the server gets; 0 for none
		reason string
	}{
		{"too many answers", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")...))
		}, frame.PolicyViolation, "more answers than messages"},
		{"beginning of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(false, frame.Text, "2")...))
		}, frame.PolicyViolation, "more answers than messages"},
		{"header of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")[:2]...))
		}, frame.PolicyViolation, "more answers than messages"},
		{"half a header of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")[:1]...))
		}, frame.GoingAway, "no answer in time"},
		{"no answer", func(*peer) {}, frame.GoingAway, "no answer in time"},
		{"half an answer", func(p *peer) { p.write(wire(false, frame.Text, "1")) }, frame.GoingAway, "no answer in time"},
		{"close", func(p *peer) { p.sendClose(1001, "") }, 1001, "closed by the server: 1001 "},
		{"breach of the protocol", func(p *peer) { p.write([]byte{0x83, 0}) }, frame.ProtocolError, "reserved opcode"},
		{"end of the stream", func(p *peer) { _ = p.Close() }, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *server) {
				if c.reason == "no answer in time" {
					o.ResetTimeout = 30 * time.Millisecond
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.expect(frame.Text, "1")
			if v := s.end(1); v != profile.Await {
				t.Fatalf("verdict %v", v)
			}
			c.play(p)
			if c.code != 0 {
				p.expectClose(c.code, c.reason)
				_ = p.Close()
			}
			r.accepted()
			r.ready(1)
			if s := r.Stats(); s.Totals.Discarded != 1 || s.Totals.Returned != 0 || s.Used() != 1 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// A reset that waits for its answer moves between loops, and its limit goes with it.
func TestResetMoves(t *testing.T) {
	for name, answer := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *server) {
				if !answer {
					o.ResetTimeout = 50 * time.Millisecond
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.expect(frame.Text, "1")
			s.on(func() {
				s.conn.End(profile.Traffic{Sent: 1}, false, frame.GoingAway, "")
				s.conn.stream.Post(func() { s.conn.MoveTo(r.loops.Loops()[1-s.conn.stream.Loop().ID()]) })
			})
			if answer {
				p.send(frame.Text, "1")
				r.ready(1)
				return
			}
			p.expectClose(frame.GoingAway, "no answer in time")
		})
	}
}

// How a lease ends that leaves the connection unfit.
func TestDiscard(t *testing.T) {
	r := newRig(t, "echo", func(o *Options, _ *server) { o.Cap, o.Warm = 1, 1 })
	next := func() (*session, *peer) {
		r.ready(1)
		return r.use(), r.accepted()
	}
	end := func(s *session, traffic profile.Traffic, midFrame bool, code frame.CloseCode, reason string) {
		t.Helper()
		s.on(func() {
			if v := s.conn.End(traffic, midFrame, code, reason); v != profile.Discard {
				t.Errorf("verdict %v; want discard", v)
			}
		})
	}

	// Within a message, a close frame can be sent.
	s, p := next()
	end(s, profile.Traffic{SendingMessage: true}, false, 1001, "session ended")
	p.expectClose(1001, "session ended")
	p.sendClose(1001, "")
	p.expectEnd()
	_ = p.Close()

	// Within a frame, it would be taken for the rest of it.
	s, p = next()
	s.write([]byte{0x82, 0x85, 0, 0, 0, 0, 'x'})
	end(s, profile.Traffic{SendingMessage: true}, true, 1001, "session ended")
	rest := new(strings.Builder)
	for b := make([]byte, 100); ; {
		n, err := p.in.Read(b)
		rest.Write(b[:n])
		if err != nil {
			break
		}
	}
	if rest.String() != "\x82\x85\x00\x00\x00\x00x" {
		t.Errorf("the server got %q", rest)
	}
	_ = p.Close()

	// The close frame is sent once.
	s, p = next()
	s.on(func() { s.conn.SendClose([]byte("\x0f\xa0bye")) })
	p.expect(frame.Close, "\x0f\xa0bye")
	end(s, profile.Traffic{}, false, 1000, "")
	p.sendClose(1000, "")
	p.expectEnd()
	_ = p.Close()

	// The server's close frame, which the session has seen, is answered.
	s, p = next()
	s.on(func() { s.conn.CloseReceived() })
	end(s, profile.Traffic{}, false, 1012, "")
	p.expectClose(1012, "")
	p.expectEnd()
	_ = p.Close()

	// The beginning of a frame has arrived that nobody asked for.
	s, p = next()
	p.write(wire(true, frame.Text, "unsolicited")[:1])
	eventually(t, "it has arrived", func() (held bool) {
		s.on(func() { held = s.conn.stream.Held() > 0 })
		return held
	})
	end(s, profile.Traffic{}, false, 1008, "")
	p.expectClose(1008, "")
	_ = p.Close()

	// It has ended.
	s, p = next()
	_ = p.Close()
	eventually(t, "the end is seen", func() (ended bool) {
		s.on(func() { ended = s.conn.stream.Ended() })
		return ended
	})
	end(s, profile.Traffic{}, false, 1000, "")

	r.ready(1)
	if s := r.Stats(); s.Totals.Discarded != 6 || s.Totals.Leased != 6 || s.Totals.Dialed != 7 || s.Totals.RetiredIdle != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A connection that is lost between Lease and Use is not alive, and its slot comes free.
func TestLeasedConnectionIsLost(t *testing.T) {
	for name, lose := range map[string]func(*peer){
		"close frame":       func(p *peer) { p.sendClose(1001, "") },
		"end of the stream": func(p *peer) { _ = p.Close() },
		"reset":             (*peer).reset,
		"data":              func(p *peer) { p.send(frame.Text, "unsolicited") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", nil)
			r.ready(1)
			p := r.accepted()
			s := &session{t: t, conn: r.lease()}
			lose(p)
			eventually(t, "the loss is noticed", func() (lost bool) {
				s.on(func() { lost = s.conn.broken != "" })
				return lost
			})
			if st := r.Stats(); st.Leased != 1 {
				t.Errorf("it is up to the lease's holder: %+v", st)
			}
			if s.begin() {
				t.Fatal("alive")
			}
			if name == "close frame" || name == "data" {
				if h, _, err := p.next(); err != nil || h.Opcode != frame.Close {
					t.Errorf("got %v, %v; want a close frame", h.Opcode, err)
				}
			}
			_ = p.Close()
			r.accepted()
			r.ready(1)
			if st := r.Stats(); st.Totals.Discarded != 1 || st.Used() != 1 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// Close ends all idle connections in order, and waits for those that are still in another state.
func TestClose(t *testing.T) {
	const connections = 6
	r := newRig(t, "echo", func(o *Options, _ *server) { o.Cap, o.Warm = connections, connections })
	r.ready(connections)
	var peers []*peer
	for range connections {
		peers = append(peers, r.accepted())
	}
	busy := r.use()
	busy.ask("question")
	asked := make(chan *peer, connections)
	var tasks sync.WaitGroup
	for _, p := range peers {
		tasks.Go(func() {
			h, payload, err := p.next()
			if err == nil && h.Opcode == frame.Text {
				asked <- p
				h, payload, err = p.next()
			}
			if err != nil || h.Opcode != frame.Close || string(payload) != "\x03\xe9" {
				t.Errorf("got %v %q, %v; want close 1001", h.Opcode, payload, err)
			}
			_, _ = p.Conn.Write(wire(true, frame.Close, "\x03\xe9"))
			_ = p.Close()
		})
	}
	server := <-asked
	busy.end(1) // is being reset
	closed := make(chan struct{})
	go func() { r.Close(within(t)); close(closed) }()
	eventually(t, "the others are closed", func() bool { return r.Stats().Used() == 1 })
	select {
	case <-closed:
		t.Error("Close did not wait for the connection that is being reset")
	default:
	}
	server.send(frame.Text, "answer") // makes it idle
	<-closed
	tasks.Wait()
	if s := r.Stats(); s.Used() != 0 || s.Totals.RetiredIdle != connections || s.Totals.Returned != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// Close at any moment of filling a pool leaves nothing.
func TestCloseWhileDialing(t *testing.T) {
	for range 30 {
		r := newRig(t, "echo", func(o *Options, s *server) { o.Cap, o.Warm, s.serve = 8, 8, echo })
		if n := rand.IntN(9); n > 0 {
			eventually(t, "some are dialed", func() bool { return r.Stats().Idle >= n-1 })
		}
		r.Close(within(t))
		if s := r.Stats(); s.Used() != 0 {
			t.Fatalf("left: %+v", s)
		}
		if attempts, _ := r.server.counts(); attempts > 8 {
			t.Fatalf("dialed %d", attempts)
		}
	}
}

// Close does not outlast its context: a lease that has not ended stays.
func TestCloseGivesUp(t *testing.T) {
	r := newRig(t, "echo", nil)
	s := r.use()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Close(ctx)
	if st := r.Stats(); st.Leased != 1 {
		t.Errorf("stats: %+v", st)
	}
	s.end(0)
	eventually(t, "it is idle", func() bool { return r.Stats().Idle == 1 })
}

// Sessions that come, ask and leave at any point, on a server that ends connections as it likes: each lease ends once,
// and each session sees its own answers only.
func TestLeasesAlwaysEnd(t *testing.T) {
	const limit, workers, rounds = 4, 6, 100
	r := newRig(t, "echo", func(o *Options, s *server) {
		o.Cap, o.Warm = limit, limit
		o.ResetTimeout, o.CloseTimeout = time.Second, time.Second
		s.serve = func(p *peer) {
			for n := 0; ; n++ {
				h, payload, err := p.next()
				switch {
				case err != nil:
					return
				case n > 0 && rand.IntN(20) == 0:
					_ = p.Conn.(*net.TCPConn).SetLinger(0) // the server counts it as gone before it resets it
					return
				case n > 0 && rand.IntN(20) == 0:
					_, _ = p.Conn.Write(wire(true, frame.Close, "\x03\xe9"))
				}
				if _, err := p.Conn.Write(wire(h.Fin, h.Opcode, string(payload))); err != nil || h.Opcode == frame.Close {
					return
				}
			}
		}
	})
	var tasks sync.WaitGroup
	for w := range workers {
		tasks.Go(func() {
			own := strings.Repeat(string(rune('a'+w)), 10)
			for done := 0; done < rounds; {
				c, ok := r.Lease()
				if !ok {
					continue
				}
				done++
				s := &session{t: t, conn: c}
				if !s.begin() {
					continue
				}
				questions := rand.IntN(4)
				for range questions {
					s.ask(own)
				}
				if rand.IntN(2) == 0 { // some wait for the answers, unless the connection ends
					wire := len(wire(true, frame.Text, own))
					eventually(t, "answers", func() (enough bool) {
						s.on(func() {
							enough = len(s.received) >= questions*wire || c.stream.Ended() || !c.Scanner.AtMessageBoundary()
						})
						return enough
					})
				}
				s.end(uint64(questions))
				if i := strings.IndexFunc(string(s.received), func(c rune) bool { return c >= 'a' && c <= 'z' && c != rune('a'+w) }); i >= 0 {
					t.Errorf("worker %d got %q", w, s.received)
				}
			}
		})
	}
	tasks.Wait()
	eventually(t, "all leases end", func() bool { s := r.Stats(); return s.Leased == 0 && s.Resetting == 0 })
	if s := r.Stats().Totals; s.Leased != workers*rounds || s.Returned+s.Discarded != s.Leased || s.Returned == 0 || s.Discarded == 0 {
		t.Errorf("totals: %+v", s)
	}
	if _, peak := r.server.counts(); peak > limit {
		t.Errorf("the server saw %d connections at once; its cap is %d", peak, limit)
	}
}
