package relay

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// mostPending is the most that may be kept for a slow receiver: one read, with what was held before it, and a control
// frame of the proxy's own.
const mostPending = 64<<10 + loop.MaxHeld + frame.MaxControlSize

// flow writes frames of all sizes, in messages of one or more, and returns the sum over what it wrote, and how many messages
// that was: total bytes, and then on until enough is true.
func flow(p *wstest.Peer, seed uint64, total int, enough *atomic.Bool) (sum [sha256.Size]byte, messages uint64, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	payload := wstest.Noise(byte(seed), 1<<20)
	digest := sha256.New()
	op, fin := frame.Binary, false
	for sent := 0; sent < total || !fin || !enough.Load(); {
		fin = random.IntN(3) > 0
		b := p.Encode(fin, op, payload[:random.IntN(1<<random.IntN(20)+1)])
		op = frame.Continuation
		if fin {
			op = frame.Binary
			messages++
		}
		digest.Write(b)
		sent += len(b)
		if _, err := p.Conn.Write(b); err != nil {
			return sum, 0, err
		}
	}
	return [sha256.Size]byte(digest.Sum(nil)), messages, nil
}

// drain reads frames, and adds them to the sum as they were on the wire, until the close frame, whose payload it returns.
// Each time that it has read some MB it calls look.
func drain(p *wstest.Peer, look func()) (sum [sha256.Size]byte, closing []byte, err error) {
	digest := sha256.New()
	encode := wstest.ClientFrame[[]byte]
	if p.Request == nil {
		encode = wstest.ServerFrame[[]byte]
	}
	for read := 0; ; {
		h, payload, err := p.Next()
		if err != nil {
			return sum, nil, err
		}
		if h.Opcode == frame.Close {
			return [sha256.Size]byte(digest.Sum(nil)), payload, nil
		}
		digest.Write(encode(h.Fin, h.Opcode, payload))
		if read += len(payload); read > 4<<20 {
			read = 0
			look()
		}
	}
}

// A receiver that is slow slows the sender down. Nothing grows in between, nothing is lost, and the close frame comes
// behind everything.
func TestBackpressure(t *testing.T) {
	const total = 24 << 20
	for _, c := range []struct {
		name     string
		ends     func(client, server *wstest.Peer) (from, to *wstest.Peer)
		receiver func(*Session) *loop.Conn
	}{
		{"slow client", func(client, server *wstest.Peer) (*wstest.Peer, *wstest.Peer) { return server, client }, func(s *Session) *loop.Conn { return s.client }},
		{"slow backend", func(client, server *wstest.Peer) (*wstest.Peer, *wstest.Peer) { return client, server }, func(s *Session) *loop.Conn { return s.leg.conn.Stream() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Service: func(s *route.Service) { s.MaxMessage = 0 }})
			from, to := c.ends(r.Session())
			most := 0
			look := func() {
				r.on(func(s *Session) { most = max(most, c.receiver(s).Pending()) })
			}
			type result struct {
				sum [sha256.Size]byte
				err error
			}
			var full atomic.Bool
			sent := make(chan result, 1)
			go func() {
				sum, _, err := flow(from, 7, total, &full)
				if err == nil {
					_, err = from.Conn.Write(from.Encode(true, frame.Close, []byte("\x0f\xa0done")))
				}
				sent <- result{sum, err}
			}()
			wstest.Eventually(t, "the receiver's socket is full", func() bool {
				look()
				return most > 0
			})
			full.Store(true)
			select {
			case <-sent:
				t.Error("everything was sent although nothing was read")
			default:
			}
			got, closing, err := drain(to, look)
			if err != nil {
				t.Fatal(err)
			}
			want := <-sent
			if want.err != nil {
				t.Fatal(want.err)
			}
			if got != want.sum {
				t.Error("the bytes that arrived are not those that were sent")
			}
			if string(closing) != "\x0f\xa0done" {
				t.Errorf("close frame %q", closing)
			}
			if most > mostPending {
				t.Errorf("%d bytes were kept; want at most %d", most, mostPending)
			}
		})
	}
}

// Both ways at once, through a session that takes its answers late: each direction waits for its own receiver only.
func TestBackpressureBothWays(t *testing.T) {
	const total = 16 << 20
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join()
	type result struct {
		sum      [sha256.Size]byte
		messages uint64
		err      error
	}
	var full atomic.Bool
	sent := make(chan result, 1)
	go func() {
		sum, messages, err := flow(p, 3, total, &full)
		sent <- result{sum, messages, err}
	}()
	most := 0
	look := func() {
		r.on(func(s *Session) { most = max(most, s.client.Pending(), s.leg.conn.Stream().Pending()) })
	}
	wstest.Eventually(t, "all buffers between the two ends are full", func() (both bool) {
		r.on(func(s *Session) { both = s.client.Pending() > 0 && s.leg.conn.Stream().Pending() > 0 })
		return both
	})
	full.Store(true)
	look()
	echoed, ended := sha256.New(), make(chan error, 1)
	go func() { // the echo comes with the same frames, not masked
		for {
			h, payload, err := p.Next()
			if err != nil || h.Opcode == frame.Close {
				ended <- err
				return
			}
			echoed.Write(p.Encode(h.Fin, h.Opcode, payload))
		}
	}()
	want := <-sent
	if want.err != nil {
		t.Fatal(want.err)
	}
	wstest.Eventually(t, "everything is answered", func() (answered bool) {
		look()
		r.on(func(s *Session) {
			answered = s.leg.conn.Scanner.Messages == want.messages && s.client.Pending() == 0
		})
		return answered
	})
	p.SendClose(frame.NormalClosure, "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := [sha256.Size]byte(echoed.Sum(nil)); got != want.sum {
		t.Error("the echo is not what was sent")
	}
	if most > mostPending {
		t.Errorf("%d bytes were kept; want at most %d", most, mostPending)
	}
}

// A close frame to a slow client waits for the end of the frame that is stuck, and is not put into it.
func TestCloseOfSlowClient(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	large := server.Encode(true, frame.Binary, wstest.Noise(1, 16<<20))
	sent := make(chan error, 1)
	go func() {
		_, err := server.Conn.Write(large)
		sent <- err
	}()
	wstest.Eventually(t, "the client's socket is full", func() (full bool) {
		r.on(func(s *Session) { full = s.client.Pending() > 0 })
		return full
	})
	r.sessions.EndAll(frame.GoingAway, "enough")
	got := make([]byte, len(large))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, large) {
		t.Fatalf("the frame did not arrive unchanged: %v", err)
	}
	client.ExpectClose(frame.GoingAway, "enough")
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A client that is slow for ever does not hold the connection for ever once the session has ended.
func TestSlowClientIsGivenUp(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 20 * time.Millisecond }})
	client, server := r.Session()
	go func() { _, _ = server.Conn.Write(server.Encode(true, frame.Binary, wstest.Noise(1, 16<<20))) }()
	wstest.Eventually(t, "the client's socket is full", func() (full bool) {
		r.on(func(s *Session) { full = s.client.Pending() > 0 })
		return full
	})
	r.sessions.EndAll(frame.GoingAway, "enough")
	r.expectRecord(fate{"proxy", frame.GoingAway, "enough", "discarded"})
	_ = client.Close()
}
