package resume

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// maxKept is how much is kept for a client, in bytes of the arena. Of a client that is there, the oldest go; the server of one that is
	// not waits.
	maxKept = 1 << 20
	// pingEvery and pingAfter are how often a client is asked, by a ping, how far it has got: after that time, or as soon as that much is kept,
	// in bytes of the arena. The same memory then serves the next messages while the processor's caches still hold it. noteEvery is how often
	// a client that gets messages is told how far the proxy has got.
	pingEvery, noteEvery = 5 * time.Second, time.Second
	pingAfter            = 64 << 10
	// maxResent is how much of what a client has missed is written at a time, in bytes: no more of it waits outside the arena.
	maxResent = 32 << 10
	// pingMark begins the payload of these pings.
	pingMark = 'r'
)

// kept is what goes to the client: whole messages that it has perhaps not got, and the beginning of one more.
type kept struct {
	follower frame.Follower
	control  bool          // the frame under way is a control frame
	closing  bool          // it is the close frame
	fin      bool          // the last frame of data ends its message
	within   bool          // a message is under way
	gap      bool          // its beginning is not kept
	lost     bool          // messages are no longer kept that no pong has acknowledged
	broken   bool          // what goes is no frames
	closed   bool          // the close frame is complete
	close    []byte        // it
	sent     int64         // messages that the session has sent
	base     int64         // sent messages before the window's message 0
	cut      bool          // the message under way does not end: a client that comes back does not get its beginning
	window   replay.Window // those that the client may miss
	behind   bool          // the client gets what it has missed, and what the session sends is only kept
	next     int64         // then: the window's message that it gets next,
	offset   int           // how many bytes of that it has,
	ends     bool          // and whether its stream ends behind all
	pinged   bool          // a ping is on its way
	pingedAt loop.Instant
}

func (k *kept) begin(a *replay.Arena, o replay.Owner, told int64) {
	k.window.SetArena(a, o)
	k.sent, k.base = told, told
	k.pingedAt = loop.Now() // most sessions need no ping before their first results are old
}

// span returns how many messages a client that comes back must have got at least, and can have got at most.
func (k *kept) span() (least, most int64) { return k.base + k.window.First(), k.sent }

// full reports whether no more is kept for a client that is not there.
func (k *kept) full() bool { return k.window.Memory() >= maxKept }

// Write implements [loop.Link]: what the session sends goes to the client, and is kept until that has got it.
func (l *Line) Write(b []byte) {
	k := &l.kept
	for pos := 0; pos < len(b); {
		if k.follower.Between() {
			if size := frame.Unfragmented(b[pos:], false); size > 0 {
				k.within = true
				l.keep(b[pos : pos+size])
				k.end()
				pos += size
				continue
			}
		}
		p := k.follower.Next(b[pos:])
		if p.Size == 0 {
			k.broken = true
			break
		}
		part := b[pos : pos+p.Size]
		pos += p.Size
		if p.Begins {
			k.control = p.Header.Opcode.IsControl()
			k.closing = p.Header.Opcode == frame.Close
			if !k.control {
				k.within, k.fin = true, p.Header.Fin
			}
		}
		switch {
		case k.closing:
			k.close = append(k.close, part...)
			k.closed = p.Ends
		case !k.control:
			l.keep(part)
			if p.Ends && k.fin {
				k.end()
			}
		}
	}
	c := l.carrier
	if c == nil {
		if k.closed { // no one is there whose part in closing could be awaited
			l.conn.End(io.EOF)
		}
		return
	}
	if k.behind {
		return
	}
	c.Write(b)
	if !k.within && (k.window.Memory() >= pingAfter || c.Loop().Now() >= k.pingedAt.After(pingEvery)) {
		l.ping()
	}
	for k.full() && k.window.First() < k.window.Next() {
		k.lost = true
		k.window.Drop(k.window.First() + 1)
	}
}

// keep keeps a part of a message.
func (l *Line) keep(part []byte) {
	k := &l.kept
	if l.needsKept() {
		l.lines.makeRoom(l)
	}
	if k.gap || k.window.Append(part) {
		return
	}
	k.window.Free() // the process has no memory left for it
	k.gap, k.lost = true, true
	if l.needsKept() {
		l.Post(l.lose)
	}
}

// needsKept reports whether the client can only get what is kept.
func (l *Line) needsKept() bool { return l.carrier == nil || l.kept.behind }

// end ends the message under way.
func (k *kept) end() {
	k.within = false
	k.sent++
	if k.gap {
		k.gap, k.lost = false, true // a pong for those before may have come since
		k.base = k.sent - k.window.Next()
		return
	}
	k.window.End(profile.Entry{})
}

// resend has the client get what follows the first messages of the session, as many as it has got. ends tells that nothing comes after that.
func (l *Line) resend(got int64, ends bool) {
	k := &l.kept
	k.lost, k.pinged = false, false
	k.window.Drop(got - k.base)
	k.behind, k.next, k.offset, k.ends = true, k.window.First(), 0, ends
	l.catchUp()
}

// catchUp writes some of what the client has missed. It continues once the client's socket has taken that.
func (l *Line) catchUp() {
	k, c := &l.kept, l.carrier
	if l.over {
		l.timer.Set(l, min(l.wait, lingerTime), 0)
	}
	for left := maxResent; k.behind && !k.lost && left > 0; {
		skip := k.offset
		write := func(piece []byte) {
			skipped := min(skip, len(piece))
			skip -= skipped
			piece = piece[skipped:min(skipped+left, len(piece))]
			c.Write(piece)
			left -= len(piece)
			k.offset += len(piece)
		}
		if k.next < k.window.Next() {
			if k.window.Pieces(k.next, write); k.offset == k.window.Length(k.next) {
				k.next, k.offset = k.next+1, 0
			}
			continue
		}
		if !k.cut {
			k.window.Begun(write)
		}
		k.behind = left == 0
	}
	switch {
	case !k.behind:
		if !k.cut || k.offset == 0 {
			c.Write(k.close)
		}
		if k.ends {
			c.CloseWrite()
			return
		}
		l.ping()
		if c.Pending() == 0 {
			l.taken()
		}
	case c.Pending() == 0:
		l.Post(func() { // after what others have to do
			if l.carrier == c && k.behind && c.Pending() == 0 {
				l.catchUp()
			}
		})
	}
}

// Cut tells the line that the session cannot complete the frame that it is sending. A client that comes back gets what was sent before, and the
// close frame with a payload. Without a line, it does nothing.
func (l *Line) Cut(payload []byte) {
	if l == nil || l.kept.closed {
		return
	}
	k := &l.kept
	k.cut, k.gap, k.closed = true, false, true
	k.close = frame.AppendControl(nil, frame.Close, payload, false)
	if l.carrier == nil {
		l.conn.End(io.EOF) // see Write
	}
}

// ping asks the client how far it has got, if it may miss something.
func (l *Line) ping() {
	k := &l.kept
	if k.within || k.behind || k.closed || k.pinged || l.former == "" && k.window.First() == k.window.Next() {
		return
	}
	k.pinged, k.pingedAt = true, l.carrier.Loop().Now()
	payload := binary.BigEndian.AppendUint64([]byte{pingMark}, uint64(k.sent))
	l.carrier.Write(frame.AppendControl(nil, frame.Ping, payload, false))
}

// acknowledged reports whether a pong answers the line's ping, and notes what the client has got then. Any other pong is one of the client's control
// frames, whose number is limited.
func (l *Line) acknowledged(h frame.Header, masked []byte) bool {
	k := &l.kept
	if !k.pinged || len(masked) != 9 {
		return false
	}
	var payload [9]byte
	copy(payload[:], masked)
	frame.ApplyMask(payload[:], h.Mask)
	got := int64(binary.BigEndian.Uint64(payload[1:]))
	if payload[0] != pingMark || k.behind || got < 0 || got > k.sent {
		return false
	}
	k.pinged = false
	if least, _ := k.span(); got >= least {
		k.lost = false
		k.window.Drop(got - k.base)
	}
	if l.former != "" {
		l.confirmed()
	}
	return true
}

// greet tells a client that reads no header fields what these say. got is how many messages it has.
func (l *Line) greet(got int64) {
	l.say(fmt.Sprintf(`{"wsbouncer":{"resume":"%s","received":%d,"sent":%d}}`, l.token, l.received.taken, got))
	l.received.noted = l.received.taken
}

// note tells such a client now and then how many of its messages the session has got.
func (l *Line) note() {
	r, k, now := &l.received, &l.kept, l.conn.Loop().Now()
	if l.carrier == nil || k.closed || r.taken == r.noted {
		return
	}
	if k.within || k.behind || now < r.notedAt.After(noteEvery) {
		if !l.timer.Active() {
			l.timer.Set(l, noteEvery, 0)
		}
		return
	}
	r.noted, r.notedAt = r.taken, now
	l.say(fmt.Sprintf(`{"wsbouncer":{"received":%d}}`, r.taken))
}

// say sends a message of the proxy's own, which is not counted.
func (l *Line) say(text string) {
	l.carrier.Write(frame.AppendMessage(nil, frame.Text, true, []byte(text), false))
}

// number returns a header field with a number of messages.
func number(name string, n int64) handshake.Field {
	return handshake.Field{Name: name, Value: strconv.FormatInt(n, 10)}
}

// tooMany refuses a client that has got more than was sent.
func tooMany(got, most int64) error {
	return &handshake.Refusal{
		Status: http.StatusBadRequest, Reason: fmt.Sprintf("%s is %d, and the session has sent %d messages", receivedField, got, most),
	}
}
