package backend

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// How a lease ends that leaves the connection unfit.
func TestDiscard(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Settings.Cap, o.Settings.Warm = 1, 1 })
	next := func() (*session, *wstest.Peer) {
		r.ready(1)
		return r.use(), r.accepted()
	}
	end := func(s *session, traffic profile.Traffic, midFrame bool, code frame.CloseCode, reason string) {
		t.Helper()
		s.on(func() {
			if v := s.conn.End(Ending{Traffic: traffic, MidFrame: midFrame, Code: code, Text: reason}); v != Discarded {
				t.Errorf("outcome %v; want discard", v)
			}
		})
	}

	// Within a message, a close frame can be sent.
	s, p := next()
	end(s, profile.Traffic{SendingMessage: true}, false, 1001, "session ended")
	p.ExpectClose(1001, "session ended")
	p.SendClose(1001, "")
	p.ExpectEnd()
	_ = p.Close()

	// Within a frame, it would be taken for the rest of it.
	s, p = next()
	s.write([]byte{0x82, 0x85, 0, 0, 0, 0, 'x'})
	end(s, profile.Traffic{SendingMessage: true}, true, 1001, "session ended")
	rest := new(strings.Builder)
	for b := make([]byte, 100); ; {
		n, err := p.Read(b)
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
	p.Expect(frame.Close, "\x0f\xa0bye")
	end(s, profile.Traffic{}, false, 1000, "")
	p.SendClose(1000, "")
	p.ExpectEnd()
	_ = p.Close()

	// The server's close frame, which the session has seen, is answered.
	s, p = next()
	s.on(func() { s.conn.CloseReceived() })
	end(s, profile.Traffic{}, false, 1012, "")
	p.ExpectClose(1012, "")
	p.ExpectEnd()
	_ = p.Close()

	// The beginning of a frame has arrived that was not asked for.
	s, p = next()
	p.SendBytes(wstest.ServerFrame(true, frame.Text, "unsolicited")[:1])
	s.until("it has arrived", func() bool { return s.conn.stream.Held() > 0 })
	end(s, profile.Traffic{}, false, 1008, "")
	p.ExpectClose(1008, "")
	_ = p.Close()

	// It has ended.
	s, p = next()
	_ = p.Close()
	s.until("the end is seen", func() bool { return s.conn.stream.Ended() })
	end(s, profile.Traffic{}, false, 1000, "")

	r.ready(1)
	if s := r.Stats(); s.Totals.Discarded != 6 || s.Totals.Leased != 6 || s.Totals.Dialed != 7 || s.Totals.RetiredIdle != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A connection that is lost between Lease and Use is not alive, and its slot comes free.
func TestLeasedConnectionIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*wstest.Peer){
		"close frame":       func(p *wstest.Peer) { p.SendClose(1001, "") },
		"end of the stream": func(p *wstest.Peer) { _ = p.Close() },
		"reset":             (*wstest.Peer).Reset,
		"data":              func(p *wstest.Peer) { p.Send(frame.Text, "unsolicited") },
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", nil)
			s := &session{t: t, conn: r.lease()}
			lose(p)
			s.until("the loss is noticed", func() bool { return s.conn.cause() != nil })
			if st := r.Stats(); st.Leased != 1 {
				t.Errorf("it is up to the lease's holder: %+v", st)
			}
			if s.begin() {
				t.Fatal("alive")
			}
			if name == "close frame" || name == "data" {
				if h, _, err := p.Next(); err != nil || h.Opcode != frame.Close {
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

// Sessions that come, ask and leave at any point, on a server that ends connections as it likes: each lease ends once,
// and each session sees its own answers only.
func TestLeasesAlwaysEnd(t *testing.T) {
	t.Parallel()
	const limit, workers, rounds = 4, 6, 100
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings.Cap, o.Settings.Warm = limit, limit
		o.Profile, o.CloseTimeout = within(t, "echo", "reset", time.Second), wstest.Timeout
		s.Serve = func(p *wstest.Peer) {
			for n := 0; ; n++ {
				h, payload, err := p.Next()
				switch {
				case err != nil:
					return
				case n > 0 && rand.IntN(20) == 0:
					_ = p.TCP().SetLinger(0) // the server counts it as gone before it resets it
					return
				case n > 0 && rand.IntN(20) == 0:
					_, _ = p.Conn.Write(wstest.ServerFrame(true, frame.Close, "\x03\xe9"))
				}
				if _, err := p.Conn.Write(wstest.ServerFrame(h.Fin, h.Opcode, string(payload))); err != nil || h.Opcode == frame.Close {
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
				c, err := r.acquire(wstest.Timeout)
				if err != nil {
					t.Error(err)
					return
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
					wire := len(wstest.ServerFrame(true, frame.Text, own))
					wstest.Eventually(t, "answers", func() (enough bool) {
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
	wstest.Eventually(t, "all leases end", func() bool { s := r.Stats(); return s.Leased == 0 && s.Resetting == 0 })
	if s := r.Stats().Totals; s.Leased != workers*rounds || s.Returned+s.Discarded != s.Leased || s.Returned == 0 || s.Discarded == 0 {
		t.Errorf("totals: %+v", s)
	}
	if peak := r.server.Counts().Peak; peak > limit {
		t.Errorf("the server saw %d connections at once; its cap is %d", peak, limit)
	}
}
