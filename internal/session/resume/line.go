package resume

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// ErrNotBack ends the stream of a client that has not come back in time, or whose place or memory another one has got.
var ErrNotBack = errors.New("the client did not come back")

// Line is what a session has in place of its client's socket: a [loop.Link], whose carrier is the client's connection of the moment. It is
// owned by the session's loop, except for the fields that say otherwise.
//
// It is carried, or parked: without a connection, for at most the service's Reconnect. When the session is over before the client has got
// its end, the line waits for it alone.
type Line struct {
	// Static.
	lines   *Lines
	conn    *loop.Conn // what the session has for its client
	id      record.ID
	service string
	who     identity.Identity // zero for an anonymous client
	hash    [sha256.Size]byte // of the client's credential, see [record.Client]
	crowd   crowd
	wait    time.Duration

	carrier  *loop.Conn // the client's connection; nil while the line is parked
	messages bool       // the present client gets messages in place of header fields
	protocol string     // the subprotocol that the client was granted; empty for none
	draining bool       // the client's stream has ended while the session did not read it
	dropping bool       // the rest of that stream is no longer for the session
	ending   error      // why the client's stream has ended, if the session has not read all before that; nil if not
	over     bool       // the session has ended
	expired  bool       // no client can come back any more
	timer    loop.Timer // ends the wait
	left     *loop.Conn // the connection that the session was taken over from; nil for none
	token    string     // of the next return
	former   string     // the one before, good until the client has shown that it has the next; empty for none

	received received
	kept     kept

	// Guarded by lines.mu.
	place  *list.Element // among the parked ones; nil for not
	among  *list.Element // the same, of its crowd
	places bool          // the session, which waits, has a place at a server
}

// Begin is what a line begins with.
type Begin struct {
	Client  *record.Client // Resume is its token
	Service string
	Wait    time.Duration
	Told    int64 // messages that the client got before its session began
}

// Begin makes the line of a session. It is called on the loop l, where the session is to live; Carry comes next.
func (s *Lines) Begin(l *loop.Loop, h loop.Handler, b Begin) *Line {
	line := &Line{lines: s, id: b.Client.ID, service: b.Service, wait: b.Wait, token: b.Client.Resume, hash: b.Client.CredentialHash}
	if b.Client.Identity != nil {
		line.who = *b.Client.Identity
	}
	line.conn = l.Link(line, h)
	line.received.notedAt = -loop.Instant(noteEvery)
	line.crowd = crowd{record.TenantOf(b.Client.Identity), limits.NameOfAddress(limits.AddressOf(b.Client.Address.Addr()))}
	line.kept.begin(s.arena, replay.Owner{
		Tenant: line.crowd.tenant, Network: line.crowd.network, GiveUp: func() { line.Post(line.giveBack) },
	}, b.Told)
	line.received.counted.Join(&s.Unfinished, line.crowd.tenant, line.crowd.network)
	s.add(line.token, line)
	return line
}

// Of returns the line of a session's client; nil if that has a socket.
func Of(client *loop.Conn) *Line {
	line, _ := client.Link().(*Line)
	return line
}

// Conn returns what the session has for its client.
func (l *Line) Conn() *loop.Conn { return l.conn }

// Parked reports whether the session waits for its client.
func (l *Line) Parked() bool { return l != nil && l.carrier == nil && l.ending == nil }

// Carry makes c, whose handler must be the line, the client's connection, over which its upgrade was accepted with a subprotocol. Without a line,
// it does nothing.
func (l *Line) Carry(c *loop.Conn, messages bool, protocol string) {
	if l == nil {
		if messages { // it waits for one
			c.Write(frame.AppendMessage(nil, frame.Text, true, []byte(`{"wsbouncer":{}}`), false))
		}
		return
	}
	l.carrier, l.messages, l.protocol = c, messages, protocol
	if messages {
		l.greet(l.kept.sent)
	}
}

// errGone is the answer to a client that cannot come back.
var errGone = &handshake.Refusal{Status: http.StatusGone, Reason: "there is no such session for this credential: it has ended, or the token was used"}

// Resume brings the client back over another connection. It is called on the session's loop with the line's [Line.Post]. socket
// returns the client's socket, which belongs to the line if Resume returns no error. The error may be a [handshake.Refusal].
func (l *Line) Resume(asked Asked, socket func() (loop.Socket, error), req *handshake.Request) error {
	r := &l.received
	if l.expired || asked.Token != l.token && asked.Token != l.former || r.streams || r.broken || r.closed || l.kept.broken {
		return errGone
	}
	got := asked.Received
	switch first, most := l.kept.span(); {
	case got < 0 && !l.kept.lost:
		got = first
	case got > most:
		return tooMany(got, most)
	case got < first:
		return &handshake.Refusal{Status: http.StatusGone, Reason: "the messages of the session that follow are no longer kept"}
	}
	if l.kept.gap {
		return &handshake.Refusal{Status: http.StatusGone, Reason: "a message of the session was not kept"}
	}
	s, err := socket()
	if err != nil {
		return err
	}
	if l.carrier != nil {
		l.takeOver()
	}
	l.lines.resumed(l, asked.Token)
	l.timer.Stop()
	on := l.conn.Loop()
	on.Handling(l.conn)
	c := on.Add(s, l, req.Early)
	protocol := l.protocol
	if !req.Offers(protocol) {
		protocol = ""
	}
	if protocol == "" && asked.Messages {
		protocol = Subprotocol
	}
	c.Write(req.AppendAccept(make([]byte, 0, 256), protocol, handshake.Field{Name: record.IDHeader, Value: l.id.String()},
		handshake.Field{Name: record.ResumeHeader, Value: l.token}, number(receivedField, r.taken), number(sentField, got)))
	l.carrier, l.messages, l.draining, l.dropping = c, asked.Messages, false, false
	if asked.Messages {
		l.greet(got)
	}
	l.lines.log.Debug("client is back", slog.String("id", l.id.String()), slog.Int64("received", r.taken), slog.Int64("sent", got))
	l.resend(got, l.over)
	if l.over {
		return nil
	}
	l.tell(false)
	l.Interest()
	if to := on.Awake(); to != on { // the loop was emptied while the line was parked
		l.Post(func() { l.MoveTo(to) })
	}
	return nil
}

// taken has the session read its server again after this event, which it may have stopped.
func (l *Line) taken() {
	l.Post(func() {
		if l.Pending() == 0 {
			l.conn.Taken()
		}
	})
}

// lingerTime is how long a connection is kept for its client's part in closing, and for a client that takes nothing of what its session has left it.
const lingerTime = 5 * time.Second

// The close codes of the protocol (docs/reconnect.md).
const (
	TooMany   frame.CloseCode = 4400 // the client has got more than was sent
	Elsewhere frame.CloseCode = 4307 // another proxy has the session
	takenOver frame.CloseCode = 4409 // another connection has taken the session over
	Gone      frame.CloseCode = 4410 // there is no such session
)

// takeOver ends the connection of a client that is also there over another one.
func (l *Line) takeOver() {
	old := l.carrier
	l.carrier = nil
	l.reset()
	e := new(leaving)
	old.SetHandler(e)
	if !l.kept.within && !l.kept.behind {
		old.Write(frame.AppendControl(nil, frame.Close, frame.ClosePayload(takenOver, "the session goes on over another connection"), false))
	}
	old.Resume()
	old.CloseWrite()
	e.timer.Set(old, lingerTime, 0)
	if before := l.left; before != nil { // only one is left, however often a client comes
		before.Post(before.Close)
	}
	l.left = old
}

// leaving is the handler of a connection whose session goes on over another.
type leaving struct{ timer loop.Timer }

func (e *leaving) Received(_ *loop.Conn, b []byte) int { return len(b) }
func (e *leaving) Flushed(*loop.Conn)                  {}
func (e *leaving) Expired(c *loop.Conn, _ *loop.Timer) { c.Close() }
func (e *leaving) Ended(c *loop.Conn, _ error) {
	e.timer.Stop()
	c.Close()
}

// Post calls f on the line's loop, see [loop.Conn.Post]. Any goroutine may call it.
func (l *Line) Post(f func()) bool { return l.conn.Post(f) }

// Parker is implemented by handlers that want to know when their client is lost and back.
type Parker interface {
	// Parked is called when the session begins to wait for its client, and, with false, when the client is back.
	Parked(parked bool)
}

func (l *Line) tell(parked bool) {
	if h, ok := loop.As[Parker](l.conn.Handler()); ok {
		h.Parked(parked)
	}
}

// park waits for the client.
func (l *Line) park(err error) {
	if !l.lines.park(l, true) {
		l.conn.End(err)
		return
	}
	l.timer.Set(l, l.wait, 0)
	l.lines.log.Debug("client is lost, its session waits for it", slog.String("id", l.id.String()), slog.Duration("for", l.wait), slog.String("reason", err.Error()))
	l.tell(true)
	l.taken() // what the server says is kept from now on
}

// giveUp waits no longer for the client.
func (l *Line) giveUp() {
	waits := l.carrier == nil && !l.expired
	l.lines.gaveUp(l, waits)
	if !waits { // it has come back, or ended, meanwhile
		return
	}
	l.conn.Loop().Handling(l.conn)
	l.expired = true
	if l.over {
		l.finish()
	} else {
		l.conn.End(ErrNotBack)
	}
}

// giveBack gives the memory of what is kept back, since others need it. Without that, a client that is away cannot come back.
func (l *Line) giveBack() {
	if l.needsKept() {
		l.lose()
		return
	}
	l.kept.window.Free()
	l.kept.gap, l.kept.lost = l.kept.within, true
}

// lose gives up a client that misses what is no longer kept.
func (l *Line) lose() {
	if c := l.carrier; c != nil {
		l.carrier = nil
		l.reset()
		c.Close()
	}
	l.giveUp()
}

// finish gives everything back.
func (l *Line) finish() {
	l.expired = true
	l.timer.Stop()
	l.received.counted.Leave()
	l.lines.remove(l)
	l.reset()
	l.kept.window.Free()
	if c := l.carrier; c != nil {
		l.carrier = nil
		c.Close()
	}
}

// Loop and Expired implement [loop.Owner].
func (l *Line) Loop() *loop.Loop { return l.conn.Loop() }

// Expired is called when the client has not come back in time, has not ended its part in closing, or is to get a note.
func (l *Line) Expired(*loop.Timer) {
	switch c := l.carrier; {
	case c == nil:
		l.giveUp()
	case l.over:
		l.carrier = nil
		l.reset()
		c.Close()
		l.awaitEnd()
	default:
		l.note()
	}
}

// The handler of the client's connection.

// Flushed implements [loop.Handler].
func (l *Line) Flushed(*loop.Conn) {
	if l.kept.behind {
		l.catchUp()
	} else if !l.over {
		l.conn.Loop().Handling(l.conn)
		l.conn.Taken()
	}
}

// Stalled implements [loop.StallHandler].
func (l *Line) Stalled(*loop.Conn) {
	if h, ok := loop.As[loop.StallHandler](l.conn.Handler()); ok && !l.over {
		h.Stalled(l.conn)
	}
}

// Ending implements [loop.EndingHandler]: what the client has sent before is read, as far as there is room. The rest waits in the socket until the
// session reads it, or drops it.
func (l *Line) Ending(c *loop.Conn) {
	l.draining = true
	l.Interest()
	if c.Paused() {
		l.tellEnding()
	}
}

// drains reports whether the client, whose stream has ended, is read although the session does not read it.
func (l *Line) drains() bool { return l.draining && (l.dropping || l.conn.Kept() <= maxDrained) }

func (l *Line) tellEnding() {
	if h, ok := loop.As[loop.EndingHandler](l.conn.Handler()); ok {
		h.Ending(l.conn)
	}
}

// MayReturn reports whether the client may come back, or is back, however its stream ends.
func (l *Line) MayReturn() bool { return l != nil && !l.received.closed }

// DropRest is called by a session that has heard [loop.EndingHandler] and whose server takes nothing. It reports whether the client may still come
// back, or is back. What it has sent that the session has not read is dropped then, up to a close frame: the client sends it again.
func (l *Line) DropRest() bool {
	if !l.MayReturn() {
		return false
	}
	if l.carrier != nil && l.draining {
		l.dropping = true
		l.Interest()
	}
	return true
}

// Ended implements [loop.Handler].
func (l *Line) Ended(c *loop.Conn, err error) {
	r := &l.received
	whole := !r.broken && !r.streams && !l.kept.broken
	l.carrier = nil
	l.reset()
	l.timer.Stop()
	c.Close()
	switch {
	case l.over:
		l.awaitEnd()
	case r.closed && l.conn.Paused() && l.conn.Kept() > 0: // the server may still take what it has said before
		l.ending = err
		l.tellEnding()
	case r.closed || l.kept.closed || l.expired || !whole:
		l.conn.End(err)
	default:
		l.park(err)
	}
}

// MoveTo implements [loop.Mover].
func (l *Line) MoveTo(to *loop.Loop) {
	if h, ok := loop.As[loop.Mover](l.conn.Handler()); ok && !l.over {
		h.MoveTo(to)
	}
}

// Retire implements [loop.Retirer].
func (l *Line) Retire(*loop.Conn) {
	if h, ok := loop.As[loop.Retirer](l.conn.Handler()); ok && !l.conn.Closed() {
		h.Retire(l.conn)
	}
	l.finish()
}

// The link of the session's client.

// Pending implements [loop.Link]. A session without its client is held back by what may be kept.
func (l *Line) Pending() int {
	switch {
	case l.carrier == nil && l.kept.full() || l.carrier != nil && l.kept.behind:
		return 1
	case l.carrier == nil:
		return 0
	}
	return l.carrier.Pending()
}

// Waits implements [loop.Link]. It leaves queued what the loop has queued for the client's connection: see the other Stalled.
func (l *Line) Waits() bool {
	if l.needsKept() {
		return l.Pending() > 0
	}
	return l.carrier.Stalled()
}

// Interest implements [loop.Link].
func (l *Line) Interest() {
	switch c := l.carrier; {
	case l.ending != nil && !l.over && !l.conn.Paused() && l.conn.Kept() == 0: // the session has read all
		l.conn.End(l.ending)
	case c == nil || l.over:
	case l.conn.Wants() || l.drains():
		c.Resume()
	default:
		c.Pause()
	}
}

// CloseWrite implements [loop.Link].
func (l *Line) CloseWrite() {
	switch {
	case l.carrier == nil:
	case l.kept.behind:
		l.kept.ends = true
	default:
		l.carrier.CloseWrite()
	}
}

// Close implements [loop.Link]. The line waits on if the client has perhaps not got the session's end.
func (l *Line) Close() {
	l.over = true
	l.timer.Put() // see Leaving
	if c := l.carrier; c != nil {
		l.timer.Stop()
		if l.kept.closed {
			l.carrier = nil
			l.reset()
			c.Close()
		}
	}
	l.awaitEnd()
}

// awaitEnd waits for the client, which has no connection, if it has perhaps not got the session's end: it has not said so by a close frame.
func (l *Line) awaitEnd() {
	if !l.kept.closed || l.received.closed || l.expired || !l.lines.park(l, false) {
		l.finish()
		return
	}
	if !l.timer.Active() {
		l.timer.Set(l, l.wait, 0)
	}
}

// Carrier implements [loop.Link].
func (l *Line) Carrier() *loop.Conn { return l.carrier }

// Leaving implements [loop.Link].
func (l *Line) Leaving() { l.timer.Take() }

// Joined implements [loop.Link].
func (l *Line) Joined() { l.timer.Put() }
