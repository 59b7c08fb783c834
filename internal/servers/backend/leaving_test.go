package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// leavingRig is a rig whose backend speaks a protocol that says how to end a session, with counters.
func leavingRig(t *testing.T, change func(*Options)) (*rig, func() meter.OrderlyEnds) {
	registry := meter.NewRegistry(2)
	r := newRig(t, "sherpa-onnx", func(o *Options, _ *wstest.Server) {
		o.Meter = registry.Backend("s", "b")
		if change != nil {
			change(o)
		}
	})
	return r, func() meter.OrderlyEnds { return registry.Snapshot(func(_ int, f func()) { f() }).Total.Orderly }
}

// speak begins a session that is in the middle.
func (r *rig) speak() (*session, *wstest.Peer) {
	r.t.Helper()
	s := r.use()
	p := r.accepted()
	s.ask("audio")
	p.Expect(frame.Text, "audio")
	return s, p
}

// A session that its client has left in the middle is ended on the server: the server gets the end message, what it answers is dropped,
// its place stays taken until it has said its last word, and only then comes the close frame.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		play  func(*wstest.Peer)
		limit time.Duration
		code  frame.CloseCode // that the server gets; 0 for none
		text  string
		end   meter.OrderlyEnd
	}{
		{"answered", func(p *wstest.Peer) { p.Send(frame.Text, "a result"); p.Send(frame.Text, "Done!") }, 0, 4001, "over", meter.EndCompleted},
		{"closed", func(p *wstest.Peer) { p.SendClose(1000, "") }, 0, 4001, "over", meter.EndCompleted},
		{"no answer", func(p *wstest.Peer) { p.Send(frame.Text, "a result") }, 30 * time.Millisecond, 4001, "over", meter.EndTimedOut},
		{"half an answer", func(p *wstest.Peer) { p.SendBytes(wstest.ServerFrame(false, frame.Text, "Do")) }, 30 * time.Millisecond, 4001, "over", meter.EndTimedOut},
		{"protocol error", func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) }, 0, frame.ProtocolError, "reserved opcode", meter.EndLost},
		{"end of the stream", func(p *wstest.Peer) { _ = p.Close() }, 0, 0, "", meter.EndLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, orderly := leavingRig(t, func(o *Options) {
				if c.limit > 0 {
					o.Profile = within(t, "sherpa-onnx", "leave", c.limit)
				}
			})
			r.ready(1)
			s, p := r.speak()
			if o := s.finish(Ending{Traffic: profile.Traffic{Sent: 1}, Code: 4001, Text: "over"}); o != Ended {
				t.Fatalf("outcome %v", o)
			}
			p.ExpectOwn(frame.Text, "Done")
			if st := r.Stats(); c.limit == 0 && (st.Retiring != 1 || st.Used() != 1 || st.Totals.Discarded != 1 || st.Totals.Reasons[pool.Served] != 1) {
				t.Errorf("stats: %+v", st)
			}
			c.play(p)
			if c.code != 0 {
				p.ExpectClose(c.code, c.text)
				_ = p.Close()
			}
			r.accepted()
			r.ready(1)
			want := meter.OrderlyEnds{}
			want[c.end] = 1
			if got := orderly(); got != want {
				t.Errorf("orderly ends %v; want %v", got, want)
			}
			if n := r.leaving.Load(); n != 0 {
				t.Errorf("%d connections are leaving", n)
			}
			if got := len(s.received); got != 0 {
				t.Errorf("the session got %d bytes", got)
			}
		})
	}
}

// At most half of a backend's places wait for last words, of those that its server takes at present. The other connections close at once.
func TestLeavingShare(t *testing.T) {
	t.Parallel()
	const places = 5
	for name, settings := range map[string]pool.Settings{
		"cap":     {Cap: places, Warm: places, Weight: 1},
		"ceiling": {Cap: 100, Ceiling: places, Warm: 100, Weight: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, orderly := leavingRig(t, func(o *Options) { o.Settings = settings })
			r.ready(places)
			counts := map[Outcome]int{}
			for range places {
				s := r.use()
				s.ask("audio")
				counts[s.finish(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway})]++
			}
			if counts[Ended] != places/2 || counts[Discarded] != places-places/2 {
				t.Errorf("outcomes: %v", counts)
			}
			if got := orderly(); got[meter.EndSkipped] != places-places/2 {
				t.Errorf("orderly ends: %v", got)
			}
		})
	}
}

// The end of the process does not wait longer than for a close. A panic gives the place up, too.
func TestLeavingEnds(t *testing.T) {
	t.Parallel()
	t.Run("hurried", func(t *testing.T) {
		r, orderly := leavingRig(t, func(o *Options) { o.CloseTimeout = 20 * time.Millisecond })
		r.ready(1)
		s, p := r.speak()
		s.finish(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway, Text: "over", Hurried: true})
		p.ExpectOwn(frame.Text, "Done")
		p.ExpectClose(frame.GoingAway, "over")
		wstest.Eventually(t, "it is counted", func() bool { return orderly()[meter.EndTimedOut] == 1 })
	})
	t.Run("panic", func(t *testing.T) {
		r, _ := leavingRig(t, nil)
		r.ready(1)
		s, p := r.speak()
		s.finish(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway, Text: "over"})
		p.ExpectOwn(frame.Text, "Done")
		s.on(func() { s.conn.Retire(s.conn.stream) })
		r.ready(1)
		if n := r.leaving.Load(); n != 0 {
			t.Errorf("%d connections are leaving", n)
		}
	})
	t.Run("moved", func(t *testing.T) {
		r, orderly := leavingRig(t, nil)
		r.ready(1)
		s, p := r.speak()
		s.on(func() {
			s.conn.End(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway, Text: "over"})
			s.conn.stream.Post(func() { s.conn.MoveTo(r.loops.Loops()[1-s.conn.stream.Loop().ID()]) })
		})
		p.ExpectOwn(frame.Text, "Done")
		p.Send(frame.Text, "Done!")
		p.ExpectClose(frame.GoingAway, "over")
		wstest.Eventually(t, "it is counted", func() bool { return orderly()[meter.EndCompleted] == 1 })
	})
}
