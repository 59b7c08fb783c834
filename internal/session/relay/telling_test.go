package relay

import (
	"errors"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// tellingRig is a rig with one connection, whose service tells clients how they fare.
func tellingRig(t *testing.T, change func(*route.Service), more ...func(*setup)) *rig {
	o := setup{
		Queue: 3, Script: &wstest.Server{Serve: wstest.Echo},
		Backend: withYAML(t, `profiles: {p: {from: echo, tell: {queue: '{"place":$place,"wait":$wait}'}}}`),
		Service: func(s *route.Service) {
			s.TellClients = true
			if change != nil {
				change(s)
			}
		},
	}
	for _, f := range more {
		f(&o)
	}
	return newRig(t, o)
}

// told lets a client wait that is told its place.
func (r *rig) told(message string) *wstest.Peer {
	r.T.Helper()
	p := r.Queued()
	p.ExpectUpgrade()
	p.Expect(frame.Text, message)
	return p
}

// A client that waits is accepted, hears its place at once and when it changes, has its pings answered, and is served in its turn with all
// that it has sent meanwhile.
func TestTellsQueue(t *testing.T) {
	r := tellingRig(t, nil)
	holder := r.Join()
	first, second := r.told(`{"place":1,"wait":null}`), r.told(`{"place":2,"wait":null}`)
	message := wstest.ClientFrame(true, frame.Text, "sent while waiting")
	second.SendBytes(message[:3])
	second.SendBytes(message[3:9])
	second.SendBytes(message[9:])
	second.Send(frame.Ping, "are you there?")
	second.Expect(frame.Pong, "are you there?")
	second.SendBytes(wstest.ClientFrame(false, frame.Text, "in "))
	second.Send(frame.Ping, "between")
	second.Expect(frame.Pong, "between")
	holder.CloseNormally()
	first.Ask("one") // it is served, with no further answer to its upgrade
	wstest.Eventually(t, "the board sees it", func() bool { return r.Group.Queue().Waiting == 1 })
	second.Expect(frame.Text, `{"place":1,"wait":null}`)
	second.SendBytes(wstest.ClientFrame(true, frame.Continuation, "pieces"))
	first.CloseNormally()
	second.Expect(frame.Text, "sent while waiting")
	heard := ""
	for fin := false; !fin; {
		h, payload, err := second.Next()
		if err != nil {
			t.Fatal(err)
		}
		heard, fin = heard+string(payload), h.Fin
	}
	if heard != "in pieces" {
		t.Errorf("heard %q", heard)
	}
	second.CloseNormally()
	if s := r.stats(); s.Total != 3 || len(s.Refused) != 0 {
		t.Errorf("%d sessions, refused %v", s.Total, s.Refused)
	}
}

// A client that waits without success gets a close code, and counts as refused as if it had not been accepted.
func TestToldAndTimedOut(t *testing.T) {
	removed := make(chan struct{})
	for name, c := range map[string]struct {
		end    func(r *rig, p *wstest.Peer)
		code   frame.CloseCode
		reason string
		status int
	}{
		"too long":  {func(*rig, *wstest.Peer) {}, frame.TryAgainLater, "no connection came free in time", 503},
		"shutdown":  {func(r *rig, _ *wstest.Peer) { r.Gate.StopAccepting() }, frame.GoingAway, "shutting down", 503},
		"removed":   {func(*rig, *wstest.Peer) { close(removed) }, frame.GoingAway, "the service was removed", 404},
		"killed":    {func(r *rig, _ *wstest.Peer) { r.sessions.Kill(r.sessions.IDs()[0], "go") }, frame.ServiceRestart, "ended by an operator: go", 503},
		"malformed": {func(_ *rig, p *wstest.Peer) { p.SendBytes([]byte{0x83, 0x80, 0, 0, 0, 0}) }, frame.ProtocolError, "reserved opcode", 0},
		"too large": {func(_ *rig, p *wstest.Peer) {
			p.SendBytes(wstest.ClientFrame(true, frame.Binary, strings.Repeat("x", 101)))
		}, frame.MessageTooBig, "message over the size limit", 0},
		"its close": {func(_ *rig, p *wstest.Peer) { p.SendClose(4001, "bored") }, 4001, "", 0},
		"no code":   {func(_ *rig, p *wstest.Peer) { p.SendClose(frame.NoStatus, "") }, frame.NoStatus, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := tellingRig(t, func(s *route.Service) {
				s.MaxMessage, s.Removed = 100, removed
				if name == "too long" {
					s.QueueTimeout = 20 * time.Millisecond
				}
				if name != "removed" {
					s.Removed = nil
				}
			})
			r.Ready(1)
			conn, ok, err := r.Group.Acquire(&pool.Waiter[*backend.Conn]{})
			if !ok || err != nil {
				t.Fatal(err)
			}
			defer conn.ReturnUnused()
			p := r.told(`{"place":1,"wait":null}`)
			c.end(r, p)
			p.ExpectClose(c.code, c.reason)
			if c.status != 0 {
				p.SendClose(c.code, "")
			}
			p.ExpectEnd()
			wstest.Eventually(t, "its place is free", func() bool { return r.Group.Queue().Waiting == 0 })
			if got := r.stats().Refused; c.status != 0 && got[c.status] != 1 || c.status == 0 && len(got) != 0 {
				t.Errorf("refused: %v", got)
			}
		})
	}
}

// A server that refuses a client's parameters is no proxy that misses a session: the close codes of clients that come back are not used.
func TestToldAndRefusedByServer(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusGone} {
		r := tellingRig(t, nil, func(o *setup) {
			o.Script.Answer = wstest.Refuse(status, "unknown model")
			o.Backend = withYAML(t, `
profiles:
  p:
    from: echo
    predial: never
    variant: {private: {query: ["*"]}}
    tell: {queue: '{"place":$place,"wait":$wait}'}`)
		})
		p := r.Connect(wstest.UpgradeRequest("/v1/test?model=none"))
		p.ExpectUpgrade()
		p.Expect(frame.Text, `{"place":1,"wait":null}`)
		h, payload, err := p.Next()
		if code, _, _ := frame.ParseClose(payload); err != nil || h.Opcode != frame.Close || code != frame.PolicyViolation {
			t.Errorf("%d: got %v %v %q, %v", status, h.Opcode, code, payload, err)
		}
		_ = p.Close()
	}
}

// A client that is refused waits no longer, however long it takes to answer its close frame: it has no place, and no tap.
func TestToldAndRefusedWaitsNoLonger(t *testing.T) {
	r := tellingRig(t, func(s *route.Service) { s.QueueTimeout = 20 * time.Millisecond })
	r.Join()
	p := r.Queued()
	id, _ := record.ParseID(p.Response().Header.Get(record.IDHeader))
	p.Expect(frame.Text, `{"place":1,"wait":null}`)
	p.ExpectClose(frame.TryAgainLater, "no connection came free in time")
	if waiting := r.sessions.AllWaiting(); len(waiting) > 0 {
		t.Errorf("%d clients wait", len(waiting))
	}
	if _, err := r.sessions.Tap(tap.Options{ID: id}); !errors.Is(err, tap.ErrNoSession) {
		t.Errorf("a tap on the client: %v", err)
	}
	_ = p.Close()
}

// A client that vanishes frees its place at once.
func TestToldVanishes(t *testing.T) {
	r := tellingRig(t, nil)
	holder := r.Join()
	p := r.told(`{"place":1,"wait":null}`)
	p.Reset()
	wstest.Eventually(t, "its place is free", func() bool { return r.Group.Queue().Waiting == 0 })
	if runtime.GOOS == "linux" { // elsewhere, only reading shows it
		p = r.told(`{"place":1,"wait":null}`)
		p.SendBytes(wstest.ClientFrame(true, frame.Binary, strings.Repeat("a", 64<<10)))
		_ = p.TCP().CloseWrite()
		wstest.Eventually(t, "the place of one that has sent more than is read is free", func() bool { return r.Group.Queue().Waiting == 0 })
	}
	holder.Ask("x")
	holder.CloseNormally()
}

// A client that gets messages in place of header fields is granted the subprotocol that stands for that before it waits, and not again.
func TestTellsBrowsers(t *testing.T) {
	for _, back := range []bool{false, true} {
		r := tellingRig(t, func(s *route.Service) {
			if back {
				reconnects(s)
			}
		})
		holder := r.Join()
		p := r.Queued("Sec-WebSocket-Protocol: wsbouncer.v1")
		response := p.Response()
		if protocol := response.Header.Get("Sec-WebSocket-Protocol"); protocol != "wsbouncer.v1" {
			t.Errorf("granted %q", protocol)
		}
		p.Expect(frame.Text, `{"place":1,"wait":null}`)
		holder.CloseNormally()
		want := `{"wsbouncer":{}}`
		if back {
			want = `{"wsbouncer":{"resume":"` + response.Header.Get("Wsbouncer-Resume") + `","received":0,"sent":1}}`
		}
		p.Expect(frame.Text, want)
		p.CloseNormally()
	}
}

// A client that offers subprotocols waits for its answer, which needs the server's choice; so does one that finds the queue full.
func TestNotTold(t *testing.T) {
	r := tellingRig(t, nil)
	holder := r.Join()
	offers := r.Queued("Sec-WebSocket-Protocol: a, b")
	holder.CloseNormally()
	offers.ExpectUpgrade()
	offers.Ask("hello")
	for place := range 3 {
		r.told(`{"place":` + string(rune('1'+place)) + `,"wait":null}`)
	}
	full := r.Connect(wstest.UpgradeRequest("/v1/test"))
	sessiontest.ExpectUnavailable(t, full, pool.ErrQueueFull.Error())
}

// A client is told how long it probably waits, as soon as leases have ended within the second that the board looks back at.
func TestTellsWait(t *testing.T) {
	t.Parallel()
	r := tellingRig(t, nil)
	for range 4 {
		r.Join().CloseNormally()
		r.Ready(1)
	}
	holder := r.Join()
	known := regexp.MustCompile(`^\{"place":1,"wait":[1-9]\d*\}$`)
	wstest.Eventually(t, "the board has looked", func() bool {
		p := r.Connect(wstest.UpgradeRequest("/v1/test"))
		defer func() {
			p.Reset()
			wstest.Eventually(t, "its place is free", func() bool { return r.Group.Queue().Waiting == 0 })
		}()
		p.ExpectUpgrade()
		_, payload, err := p.Next()
		return err == nil && known.Match(payload)
	})
	holder.CloseNormally()
}
