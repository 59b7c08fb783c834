package relay

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// fromServer takes data frames, or pieces of them, as they come from the present server. The client gets whole messages, as the tracker
// judges them.
func (f *recovery) fromServer(b []byte) {
	s := f.session
	leg := f.machine.Legs()
	for len(b) > 0 && f.machine.Legs() == leg && s.leg.conn != nil {
		m, n, is := f.down.next(b)
		switch is {
		case gatheredPart:
			if f.down.skipping {
				f.passPart(b[:n], false)
			}
			return
		case gatheredWhole:
			f.judge(&m)
			f.down.done()
		case gatheredTooLong:
			f.passPart(f.down.begun(), false)
			f.down.skip()
			f.lose(meter.UnrecoverableMessage, fmt.Sprintf("the server sent a message of more than %d KiB", maxWhole>>10), false)
		case gatheredRest:
			f.passPart(b[:n], true)
		}
		b = b[n:]
	}
}

// passPart passes on a piece of a message that is too long.
func (f *recovery) passPart(b []byte, ends bool) {
	d := &f.session.leg.down
	if !d.partial && d.inserting {
		d.insert()
	}
	if len(b) == 0 {
		return
	}
	if !d.closed {
		d.to.Write(b)
	}
	d.partial = !ends
	if ends && d.inserting {
		d.insert()
	}
}

// judge passes a whole message on to the client, unless the client must not get it.
func (f *recovery) judge(m *message) {
	s, t := f.session, f.tracker
	payload := m.payload
	if !m.single {
		buffer := messageBuffers.Get().(*[]byte)
		defer freeBuffer(buffer)
		*buffer = m.appendPayload(*buffer)
		payload = *buffer
	}
	before := t.Answered()
	j := t.ServerMessage(m.op, payload)
	final := j.Final || t.Answered() > before
	if j.Sign {
		f.signs++
	}
	switch {
	case final:
		f.partial = 0
	case j.Sign && f.partial == 0:
		f.partial = s.client.Loop().Now()
	}
	if j.GoAway && f.goAway() {
		j.Pass = false
	}
	if j.Pass {
		f.deliver(m, payload, j.Payload)
	} else {
		s.account.hide(m.op, len(payload))
		s.tap.Hidden()
	}
	if why := t.Whole(); why != "" {
		f.lose(meter.UnrecoverableFormat, why, true)
	}
	f.drop()
	if t.Answered() > before {
		f.noteLate()
	}
	if j.Answer || t.Answered() > before { // a final result alone is no point to move at: more may belong to it
		f.answered()
	}
}

// deliver sends the client a message as it came, or with the payload that the tracker has made of it.
func (f *recovery) deliver(m *message, payload, wanted []byte) {
	s := f.session
	d := &s.leg.down
	if d.inserting {
		d.insert()
	}
	if d.closed {
		return
	}
	if f.machine.AwaitsDelivery() { // the client may be told so before
		f.happens(&failover.Event{Kind: failover.Delivered})
	}
	if same(payload, wanted) {
		d.to.Write(m.raw)
	} else {
		buffer := messageBuffers.Get().(*[]byte)
		*buffer = frame.AppendMessage(*buffer, m.op, true, wanted, false)
		d.to.Write(*buffer)
		freeBuffer(buffer)
	}
	if s.learns {
		s.account.affinity.got(m.op, wanted)
	}
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// drop forgets what is answered for good.
func (f *recovery) drop() {
	first := f.window.First()
	for first < f.machine.Cursor() && f.tracker.Done(f.window.Entry(first)) {
		first++
	}
	f.window.Drop(first)
}

// view returns what a watch for stalls looks at. The session must hold a lease.
func (f *recovery) view() failover.StallView {
	s := f.session
	return failover.StallView{
		Signs: f.signs, Unanswered: f.tracker.Unanswered(), Delivered: f.tracker.Delivered(), Blocked: s.leg.up.to.Pending() > 0,
		Excused: s.leg.conn.Stream().Paused() || s.client.Pending() > 0, Replaying: f.machine.Behind(), Half: f.tracker.Bytes(f.watch.Timeout() / 2),
	}
}

// watchLeg looks for stalls of the server that serves the session from now on.
func (f *recovery) watchLeg() {
	if f.watch == nil {
		return
	}
	v := f.view()
	f.watch.Begin(&v)
	f.look.Set(f.session.client, f.watch.Every(), timeStall)
}

// lookForStall is called by the timer.
func (f *recovery) lookForStall() {
	s := f.session
	if s.life.state != relaying {
		return // the state is bounded otherwise, or a new leg looks again
	}
	v := f.view()
	found := f.watch.Look(&v, loop.Now())
	if found.Stalled {
		s.leg.conn.Stalled(s.voter(), found.Again, f.watch.Quiet(), found.Why)
		s.leaveServer(meter.Stalled, event{
			kind: stopped, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: found.Why, fault: true,
		})
		return
	}
	if found.Signed {
		s.leg.conn.Signed()
	}
	if found.Answered {
		s.leg.conn.Answered()
	}
	f.look.Set(s.client, f.watch.Every(), timeStall)
}

// listen listens to what the client says, if there is doubt. e is the entry of the message. payload may be nil for a message in m.
func (f *recovery) listen(m *message, e profile.Entry, payload []byte) {
	if f.watch == nil || !f.watch.Listens() || e.Kind != profile.EntryAudio || e.From == e.To || m.raw == nil {
		return
	}
	buffer, audio := messageBuffers.Get().(*[]byte), messageBuffers.Get().(*[]byte)
	if payload == nil {
		*buffer = m.appendPayload(*buffer)
		payload = *buffer
	}
	ok := false
	if *audio, ok = f.tracker.Audio(*audio, e, payload); ok {
		encoding, rate, channels := f.tracker.Format()
		f.watch.Hear(*audio, encoding, rate, channels)
	}
	freeBuffer(buffer)
	freeBuffer(audio)
}
