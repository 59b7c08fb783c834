package backend

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A server that breaks RFC 6455 while no session is there is told what it did.

// protocolErrors are what a server may not send, and what it is told.
var protocolErrors = []struct {
	name string
	wire []byte
	told *frame.Error
}{
	{"reserved opcode", []byte{0x83, 0}, frame.ErrReservedOpcode},
	{"reserved bits", []byte{0xf2, 0}, frame.ErrReservedBits},
	{"masked frame", []byte{0x82, 0x80}, frame.ErrMasked},
	{"close with half a code", wstest.ServerFrame(true, frame.Close, "\x03"), frame.ErrClosePayload},
	{"close with 999", wstest.ServerFrame(true, frame.Close, "\x03\xe7gone"), frame.ErrCloseCode},
	{"close with 1005", wstest.ServerFrame(true, frame.Close, "\x03\xed"), frame.ErrCloseCode},
	{"close with 5000", wstest.ServerFrame(true, frame.Close, "\x13\x88"), frame.ErrCloseCode},
	{"close reason not UTF-8", wstest.ServerFrame(true, frame.Close, "\x03\xe8\xff"), frame.ErrCloseReason},
}

func TestProtocolErrorBetweenSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, profile string
		reach         func(*rig) *wstest.Peer // brings the connection where it is broken
		retired       uint64
	}{
		{"idle", "echo", func(r *rig) *wstest.Peer {
			r.ready(1)
			return r.accepted()
		}, 1},
		{"idle, one-shot", "one-shot", func(r *rig) *wstest.Peer {
			r.ready(1)
			return r.accepted()
		}, 1},
		{"resetting", "echo", func(r *rig) *wstest.Peer {
			r.ready(1)
			p, s := r.accepted(), r.use()
			s.ask("1")
			p.Expect(frame.Text, "1")
			s.end(1)
			return p
		}, 1},
		{"greeting", "vllm-realtime", (*rig).accepted, 0},
	} {
		for _, b := range protocolErrors {
			t.Run(c.name+", "+b.name, func(t *testing.T) {
				r := newRig(t, c.profile, nil)
				p := c.reach(r)
				p.SendBytes(b.wire)
				p.ExpectClose(b.told.Code, b.told.Reason)
				p.ExpectEnd()
				if s := r.Stats(); s.Retiring+s.Dialing != 1 || s.Idle != 0 {
					t.Errorf("the server still has the connection: %+v", s)
				}
				_ = p.Close()
				if c.retired == 0 {
					wstest.Eventually(t, "the dial has failed", func() bool { return r.Stats().Totals.DialFailed == 1 && r.Health().Reason != notDialed })
					if h := r.Health(); h.Reason != b.told.Reason {
						t.Errorf("health: %+v; want the reason %q", h, b.told.Reason)
					}
					return
				}
				r.accepted()
				if got := r.Stats().Totals.Reasons; got[pool.Broken] != 1 || got.Sum() != 1 {
					t.Errorf("reasons %v", got.Named())
				}
			})
		}
	}
}

// What a server sends after it has been told, be it valid or not, is dropped until it ends the stream: a connection that was
// just closed would be reset, and the server might never see what it was told.
func TestSendsOnAfterProtocolError(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]byte{
		"messages":            wstest.ServerFrame(true, frame.Text, strings.Repeat("x", 60_000)),
		"breaks the protocol": append(wstest.ServerFrame(true, frame.Text, "x"), 0x83, 0),
		"pings":               wstest.ServerFrame(true, frame.Ping, "are you there?"),
		"closes":              wstest.ServerFrame(true, frame.Close, "\x03\xe8"),
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", nil)
			p.SendBytes([]byte{0x83, 0})
			for sent := 0; sent < 8<<20; sent += 64 << 10 {
				var b []byte
				for len(b) < 64<<10 {
					b = append(b, more...)
				}
				p.SendBytes(b)
			}
			p.ExpectClose(frame.ProtocolError, "reserved opcode")
			p.ExpectEnd()
			if s := r.Stats(); s.Retiring != 1 {
				t.Errorf("the server still has the connection: %+v", s)
			}
		})
	}
}

// The server is told of a protocol error that a session saw, whatever the session itself says.
func TestProtocolErrorInSession(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Ending{
		"fault":      {Fault: "broke", Code: frame.InternalError, Text: "other"},
		"full":       {Full: true, Code: frame.GoingAway},
		"left early": {Code: frame.GoingAway},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", nil)
			s, p := r.use(), r.accepted()
			s.on(func() {
				s.conn.CloseReceived()
				s.conn.RecordProtocolError(frame.ErrCloseReason)
			})
			if got := s.finish(e); got != Discarded {
				t.Errorf("outcome %v", got)
			}
			p.ExpectClose(frame.InvalidPayload, "close reason is not UTF-8")
			p.ExpectEnd()
			want := uint64(0)
			if e.Fault != "" {
				want = 1
			}
			if h := r.Health(); h.Broken != want {
				t.Errorf("%d broken sessions; want %d", h.Broken, want)
			}
		})
	}
}
