package session

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// fromServer takes data frames, or pieces of them, as they come from the present server. The client gets whole messages, as the tracker
// judges them.
func (f *failover) fromServer(b []byte) {
	s := f.session
	leg := f.legs
	for len(b) > 0 && f.legs == leg && s.leg.conn != nil {
		m, n, is := f.down.next(b)
		switch is {
		case gatheredPart:
			if f.down.skipping {
				f.passPart(b[:n], false)
			}
			return
		case gatheredWhole:
			f.judge(&m)
		case gatheredTooLong:
			f.passPart(f.down.begun(), false)
			f.down.skip()
			f.lose(meter.UnassuredMessage, fmt.Sprintf("the server sent a message of more than %d KiB", maxWhole>>10), false)
		case gatheredRest:
			f.passPart(b[:n], true)
		}
		b = b[n:]
	}
}

// passPart passes on a piece of a message that is too long.
func (f *failover) passPart(b []byte, ends bool) {
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
func (f *failover) judge(m *message) {
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
	if j.Sign {
		f.signs++
	}
	if j.Pass {
		f.deliver(m, payload, j.Payload)
	} else {
		s.tap.Hidden()
	}
	if why := t.Whole(); why != "" {
		f.lose(meter.UnassuredFormat, why, true)
	}
	f.drop()
	switch {
	case t.Answered() > before:
		f.leftAlone = false
		f.assureAgain()
		f.answeredPoint()
	case j.Final:
		f.answeredPoint()
	}
}

// deliver sends the client a message as it came, or with the payload that the tracker has made of it.
func (f *failover) deliver(m *message, payload, wanted []byte) {
	s := f.session
	d := &s.leg.down
	if d.inserting {
		d.insert()
	}
	if d.closed {
		return
	}
	if same(payload, wanted) {
		d.to.Write(m.raw)
	} else {
		buffer := messageBuffers.Get().(*[]byte)
		*buffer = frame.AppendMessage(*buffer, m.op, true, wanted, false)
		d.to.Write(*buffer)
		freeBuffer(buffer)
	}
	if f.lost.waits {
		f.judgeLost(false)
		if f.lost.waits = false; f.lost.cause.Wish() {
			return
		}
		s.meter.Failover.Observe(time.Duration(loop.Now() - f.lost.at))
	}
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// drop forgets what is answered for good.
func (f *failover) drop() {
	first := f.window.First()
	for first < f.cursor && f.tracker.Done(f.window.Entry(first)) {
		first++
	}
	f.window.Drop(first)
}
