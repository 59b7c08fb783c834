package relay

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const startRecognition = `{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16000}}`

// paused waits until the client of the only session is not read.
func (r *rig) paused() {
	r.T.Helper()
	wstest.Eventually(r.T, "the client is not read", func() (paused bool) {
		r.on(func(s *Session) { paused = s.client.Paused() })
		return paused
	})
}

// free waits until no connection is leased.
func (r *rig) free() {
	r.T.Helper()
	wstest.Eventually(r.T, "the lease has ended", func() bool { return r.Backend.Stats().Leased == 0 })
}

// A client that closes behind a message that its server does not take is noticed, however its bytes arrive, although its messages wait: its lease
// ends, and it gets its close frame back.
func TestCloseBehindMessageThatWaits(t *testing.T) {
	for name, failover := range map[string]bool{"": false, "with failover": true} {
		for _, apart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newTLSRigIf(t, apart, setup{
					Profile: "speechmatics", Script: new(wstest.Server), Cap: 1, Queue: 1,
					Service: func(s *route.Service) {
						s.CloseTimeout, s.QueueTimeout = 20*time.Millisecond, wstest.Timeout
						s.Failover, s.ReplayWindow = failover, 15*time.Second
					},
				})
				client := r.Join()
				server := r.Script.Take()
				bytes := [][]byte{
					client.Encode(true, frame.Text, []byte(startRecognition)), client.Encode(true, frame.Binary, make([]byte, 3000)),
					client.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "bye")),
				}
				if apart {
					client.SendBytes(bytes[0], bytes[1])
					server.Expect(frame.Text, startRecognition)
					r.paused()
					for _, b := range bytes[2] {
						client.SendBytes([]byte{b})
					}
				} else {
					client.SendBytes(bytes...)
					server.Expect(frame.Text, startRecognition)
				}
				client.ExpectClose(frame.NormalClosure, "bye")
				r.free()
				_ = client.Close()
			})
		}
	}
}

// newTLSRigIf is newRig, or one for clients that speak TLS.
func newTLSRigIf(t *testing.T, secured bool, o setup) *rig {
	r := newRig(t, o)
	if secured {
		r.ServeTLS(nil)
	}
	return r
}

// Neither does one keep its lease that closes behind messages that a limit holds back for longer than the close timeout.
func TestCloseHeldBack(t *testing.T) {
	r := limitedRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 20 * time.Millisecond }}, once, limits.Limits{})
	client, server := r.heldBackSession()
	client.Send(frame.Text, "three")
	client.SendClose(frame.NormalClosure, "bye")
	server.ExpectClose(frame.NormalClosure, "bye")
	server.SendClose(frame.NormalClosure, "")
	client.ExpectClose(frame.NormalClosure, "bye")
	r.free()
}

// A client that has closed behind a message is not put back in the queue when its server says that it is full: neither if the close frame
// came before, nor after. Its rate, which has its bytes looked at in pieces, changes nothing.
func TestCloseWhileMoving(t *testing.T) {
	for _, rate := range []limits.Limits{{}, {MessageRate: limits.Rate{N: 1000, Per: time.Hour}}} {
		for _, before := range []bool{false, true} {
			var asked atomic.Int64
			full, say := make(chan struct{}, 1), make(chan struct{})
			script := &wstest.Server{Serve: func(p *wstest.Peer) {
				for {
					h, _, err := p.Next()
					if err != nil || h.Opcode == frame.Close {
						return
					}
					if h.Opcode == frame.Text && asked.Add(1) == 1 {
						full <- struct{}{}
						<-say
					}
					_, _ = p.Write(p.Encode(true, frame.Text, []byte(`{"status": "WAIT"}`)))
				}
			}}
			r := limitedRig(t, setup{Profile: "whisperlive", Queue: 1, Script: script, Service: func(s *route.Service) {
				s.CloseTimeout = time.Hour // the client is gone at once
			}}, rate, limits.Limits{})
			client := r.Join()
			rest := client.Encode(true, frame.Binary, make([]byte, 3000))
			last := client.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "bye"))
			if client.SendBytes(client.Encode(true, frame.Text, []byte(`{"uid": "a"}`)), rest); before {
				client.SendBytes(last)
			}
			<-full
			wstest.Eventually(t, "the client's bytes are kept", func() (kept bool) {
				r.on(func(s *Session) { kept = s.client.Kept() >= len(rest) && (!before || s.client.Kept() > len(rest)) })
				return kept
			})
			if close(say); !before {
				wstest.Eventually(t, "the client waits again", func() (waits bool) {
					r.on(func(s *Session) { waits = s.life.state == moving })
					return waits
				})
				client.SendBytes(last)
			}
			client.ExpectClose(frame.NormalClosure, "bye")
			r.free()
			_ = client.Close()
		}
	}
}

// Neither is one moved that may outlive its server, which has not got all that the client said before it closed.
func TestPostponedCloseIsNotMoved(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{Service: func(s *route.Service) { s.CloseTimeout = time.Hour }})
	client, server, n := r.Begin()
	client.SendBytes(
		client.Encode(true, frame.Text, []byte(`{"uid": "a"}`)), client.Encode(true, frame.Binary, []byte(sessiontest.Chunk(0))),
		client.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "bye")),
	)
	server.Expect(frame.Text, `{"uid": "a"}`)
	wstest.Eventually(t, "the close frame waits", func() (waits bool) {
		r.on(func(s *Session) { waits = s.isLeaving() })
		return waits
	})
	server.Send(frame.Text, `{"status": "WAIT"}`)
	client.ExpectClose(frame.NormalClosure, "bye")
	_ = client.Close()
	r.expectRecord(fate{"client", frame.NormalClosure, "bye", "discarded"})
	if leased := r.Backends[1-n].Stats().Totals.Leased; leased != 0 {
		t.Errorf("%d connections were leased for a client that had closed", leased)
	}
}

// A client that has closed after its last message keeps its lease for no longer than the close timeout, whatever the server still has to say.
func TestCloseBeforeLastAnswer(t *testing.T) {
	for name, together := range map[string]bool{"one after the other": false, "together": true} { // then the close frame waits for the end
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "vosk", Service: func(s *route.Service) { s.CloseTimeout = 20 * time.Millisecond }})
			client, server := r.Session()
			if together {
				client.SendBytes(
					client.Encode(true, frame.Text, []byte(voskConfig)), client.Encode(true, frame.Text, []byte(voskEnd)),
					client.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "bye")),
				)
			} else {
				client.Send(frame.Text, voskConfig)
				client.Send(frame.Text, voskEnd)
				r.is(completing)
				client.SendClose(frame.NormalClosure, "bye")
			}
			client.ExpectClose(frame.NormalClosure, "the session is over")
			_ = client.Close()
			r.expectRecord(fate{"client", frame.NormalClosure, "the session is over", "resetting"})
			_ = server.Close()
		})
	}
}

// The same of a session that is not recoverable, whose client has said something behind its last message.
func TestCloseBehindTooMuch(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.CloseTimeout = 20 * time.Millisecond }})
	client, server, _ := r.began()
	r.on(func(s *Session) { s.failover.loseMemory() })
	client.SendBytes(client.Encode(true, frame.Text, []byte(voskEnd)), client.Encode(true, frame.Text, []byte("more")))
	r.is(completing)
	client.SendClose(frame.NormalClosure, "bye")
	client.ExpectClose(frame.NormalClosure, "the session is over")
	_, _ = client.Close(), server.Close()
}
