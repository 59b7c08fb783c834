package session

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file observes a session for its taps. While nobody taps a session, its own handlers get its connections' events, and nothing here
// runs. A tap puts observers in front of them, which look at the bytes and pass them on.

// Events of taps, and who does something; see api.TapEvent.
const (
	tapSession    = "session"
	tapFrame      = "frame"
	tapVerdict    = "verdict"
	tapConnection = "connection"

	fromClient  = "client"
	fromBackend = "backend"
	fromProxy   = "proxy"
)

// tapping is what taps need of one session. It is owned by the session's loop.
type tapping struct {
	session  *Session
	audience audience
	client   *clientTap
	backend  *backendTap // of the present leg, or the last
	about    string      // whose message the boundary's step is about; empty if it is about none
	over     bool        // the end of the session was shown
}

// audience is who hears of a session: its taps. A copy is independent of the original.
type audience struct {
	session string // its id
	taps    []*Tap // not changed in place
	text    int    // the longest text that one of them shows, in bytes
}

func (a *audience) emit(e TapEvent) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Session = a.session
	for _, t := range a.taps {
		t.add(e)
	}
}

// set makes the taps the audience.
func (a *audience) set(taps []*Tap) {
	a.taps, a.text = taps, 0
	for _, t := range taps {
		a.text = max(a.text, t.options.Text)
	}
}

// offerToTaps lets the taps that wait for sessions watch this one, which begins on conn.
func (s *Session) offerToTaps(conn *backend.Conn) {
	if s.server.taps.seeking.Load() == 0 {
		return
	}
	s.server.taps.each(func(t *Tap) {
		if t.watches(s, conn.Backend().Name(), true) {
			s.addTap(t)
			t.add(s.describeToTap("began", conn))
		}
	})
}

// tapRunning lets a tap watch the session, which runs already.
func (s *Session) tapRunning(t *Tap) {
	switch {
	case s.life.state == gone:
		t.end("the session has ended")
	case t.watches(s, "", false): // unless it has watched the session since its beginning
		s.addTap(t)
		t.add(s.describeToTap(s.life.state.String(), s.leg.conn))
	}
}

// describeToTap returns the first event of a tap of the session.
func (s *Session) describeToTap(what string, conn *backend.Conn) TapEvent {
	e := TapEvent{
		Time: time.Now(), Session: s.tap.audience.session, Event: tapSession, What: what,
		Service: s.record.Service.Name, Client: s.record.Client.String(),
	}
	if conn != nil {
		e.Backend = conn.Backend().Name()
	}
	return e
}

// addTap adds a tap, and puts observers before the session's handlers if it is the first.
func (s *Session) addTap(t *Tap) {
	if s.tap == nil {
		s.tap = &tapping{session: s, audience: audience{session: s.record.ID.String()}}
		s.tap.client = &clientTap{tapping: s.tap, side: newSideTap(&s.scanner)}
		s.client.SetHandler(s.tap.client)
		if s.leg.conn != nil {
			s.tap.observe(s.leg.conn)
		}
	}
	s.tap.audience.set(append(slices.Clip(s.tap.audience.taps), t))
	s.tap.share()
}

// untap removes a tap, and the observers if it was the last.
func (s *Session) untap(t *Tap) {
	if s.tap == nil || !slices.Contains(s.tap.audience.taps, t) {
		return
	}
	left := slices.DeleteFunc(slices.Clone(s.tap.audience.taps), func(other *Tap) bool { return other == t })
	s.tap.audience.set(left)
	s.tap.share()
	if len(left) == 0 {
		s.removeTapping()
	}
}

// removeTapping makes the session's handlers those of its connections again.
func (s *Session) removeTapping() {
	s.client.SetHandler(s.handler())
	if b := s.tap.backend; b != nil && s.leg.conn == b.conn {
		b.remove()
	}
	s.tap = nil
}

// share gives the present leg's observer the audience.
func (t *tapping) share() {
	if t.backend != nil && t.session.leg.conn == t.backend.conn {
		t.backend.audience = t.audience
	}
}

// observe puts an observer before the handler of the leg's connection.
func (t *tapping) observe(conn *backend.Conn) {
	t.backend = &backendTap{
		audience: t.audience, tapping: t, conn: conn, inner: (*backendSide)(t.session), side: newSideTap(&conn.Scanner),
	}
	conn.Stream().SetHandler(t.backend)
}

// legStarted observes the connection of a new leg.
func (t *tapping) legStarted(conn *backend.Conn) {
	t.observe(conn)
	if t.session.life.turnedAway > 0 {
		t.emit(TapEvent{Event: tapSession, What: "moved", Backend: conn.Backend().Name()})
	}
}

// emit shows an event that is about all of the session, behind the frames that were handled before it.
func (t *tapping) emit(e TapEvent) {
	t.flush()
	t.audience.emit(e)
}

// flush shows the frames that were handled.
func (t *tapping) flush() {
	t.client.side.flush(&t.audience, fromClient, t.session.framesHandled(), true)
	if b := t.backend; b != nil && t.session.leg.conn == b.conn {
		b.side.flush(&t.audience, fromBackend, b.conn.Scanner.Frames, true)
	}
}

// greet shows the frames that the server sent before the session, which the proxy sends the client now.
func (t *tapping) greet(frames []byte) {
	side := newSideTap(new(frame.Scanner))
	side.look(frames, t.audience.text)
	for i := range side.seen {
		side.seen[i].event.To, side.seen[i].event.Reason = fromClient, "greeting"
	}
	side.show(&t.audience, fromProxy, len(side.seen))
}

// clientStep shows what the boundary makes of a piece of the client's message.
func (t *tapping) clientStep(step profile.Step, raw []byte, ends bool) {
	t.step(&t.client.side, fromClient, t.session.framesHandled(), step, raw, ends)
}

// backendStep is clientStep for the backend's message.
func (t *tapping) backendStep(step profile.Step, raw []byte, ends bool) {
	t.step(&t.backend.side, fromBackend, t.backend.conn.Scanner.Frames, step, raw, ends)
}

// passWords are the verdicts on messages, by profile.Pass.
var passWords = [...]string{
	profile.Relay: "passed", profile.Hold: "held", profile.Release: "released", profile.Drop: "dropped", profile.Keep: "waits",
}

// step shows the boundary's verdict on a frame, when the frame has ended or was not taken. frames is what the side's scanner has counted.
func (t *tapping) step(side *sideTap, from string, frames uint64, step profile.Step, raw []byte, ends bool) {
	t.about = from
	switch {
	case step.Pass == profile.Keep:
		frames++ // the scanner is still before it
	case step.Pass != profile.Release && (raw == nil || !ends):
		return
	}
	side.flush(&t.audience, from, frames, false)
	t.audience.emit(TapEvent{Event: tapVerdict, From: from, What: passWords[step.Pass]})
}

// followed shows what else a step asks for.
func (t *tapping) followed(step profile.Step) {
	from := t.about
	t.about = ""
	verdict := func(what string, reason profile.Reason) {
		t.emit(TapEvent{Event: tapVerdict, From: from, What: what, Reason: reason.String()})
	}
	switch step.Then {
	case profile.Replaced:
		verdict("ends-session", step.Reason)
	case profile.Finished:
		verdict("answered", step.Reason)
	case profile.Elsewhere:
		verdict("moved", step.Reason)
	case profile.Foreign, profile.Broken:
		verdict("broken", step.Reason)
	}
	switch step.Client {
	case profile.Pause:
		verdict("paused", profile.NoReason)
	case profile.Resume:
		verdict("resumed", profile.NoReason)
	}
}

// reset shows that the profile's reset takes the place of the client's last message.
func (t *tapping) reset() {
	t.backend.began = time.Now()
	t.emit(TapEvent{Event: tapVerdict, What: "reset", Reason: t.backend.conn.Boundary().Awaited()})
}

// changed shows that the session has entered another state.
func (t *tapping) changed(e *event) {
	switch t.session.life.state {
	case moving:
		t.emit(TapEvent{Event: tapSession, What: "moving", Reason: e.reason})
	case lingering:
		t.ended()
	}
}

// ended shows the end of the session, once.
func (t *tapping) ended() {
	if t.over {
		return
	}
	t.over = true
	r := &t.session.record
	e := TapEvent{
		Event: tapSession, What: "ended", From: r.By.String(), Code: uint16(r.Code), Reason: r.Reason, Elapsed: r.Ended.Sub(r.Leased),
	}
	if r.Backend != nil {
		e.Backend = r.Backend.Name()
	}
	t.emit(e)
}

// forgotten ends the taps' part in the session, which is over.
func (t *tapping) forgotten() {
	t.ended()
	t.client.side.flush(&t.audience, fromClient, t.session.framesHandled(), true)
	t.session.removeTapping()
	for _, tap := range t.audience.taps {
		tap.release(t.session)
	}
}

// sent shows a frame that the proxy itself sends.
func (a *audience) sent(to string, op frame.Opcode, payload []byte) {
	e := TapEvent{Event: tapFrame, From: fromProxy, To: to, Kind: op.String(), Size: int64(len(payload)), Fin: true}
	switch op {
	case frame.Text:
		shown := payload[:min(len(payload), a.text+1)]
		e.Text, e.Cut = cutText(string(shown), a.text, false)
	case frame.Close:
		e.showClose(payload)
	}
	a.emit(e)
}

// clientTap is the handler of a client's connection while the session is tapped. It implements what clientSide does, except
// that its client's bytes are looked at first.
type clientTap struct {
	tapping *tapping
	side    sideTap
}

func (h *clientTap) inner() *clientSide { return (*clientSide)(h.tapping.session) }

// Received implements [loop.Handler].
func (h *clientTap) Received(c *loop.Conn, b []byte) int {
	t := h.tapping
	s := t.session
	if s.life.discardInput { // it is not scanned any more, either
		return h.inner().Received(c, b)
	}
	h.side.look(b, t.audience.text)
	if s.drops() {
		h.side.drop()
	}
	n := s.handler().Received(c, b)
	h.side.consumed(n - c.Kept())
	if s.tap == t {
		if s.drops() {
			t.flush()
			h.side.drop()
		}
		h.side.flushAll(&t.audience, fromClient)
	}
	return n
}

// drops reports whether the client's data goes nowhere any more.
func (s *Session) drops() bool { return !rulesOf[s.life.state].toBackend && s.life.state != moving }

// Sent is told of the control frames that the proxy sends the client.
func (h *clientTap) Sent(op frame.Opcode, payload []byte) {
	h.tapping.flush()
	h.tapping.audience.sent(fromClient, op, payload)
}

// Flushed implements [loop.Handler].
func (h *clientTap) Flushed(c *loop.Conn) { h.inner().Flushed(c) }

// Ended implements [loop.Handler].
func (h *clientTap) Ended(c *loop.Conn, err error) { h.inner().Ended(c, err) }

// Stalled implements [loop.StallHandler].
func (h *clientTap) Stalled(c *loop.Conn) { h.inner().Stalled(c) }

// Ending implements [loop.EndingHandler].
func (h *clientTap) Ending(c *loop.Conn) { h.inner().Ending(c) }

// Gathered implements [loop.GatheringHandler].
func (h *clientTap) Gathered(c *loop.Conn) { h.inner().Gathered(c) }

// Expired implements [loop.TimerHandler].
func (h *clientTap) Expired(c *loop.Conn, t *loop.Timer) { h.inner().Expired(c, t) }

// MoveTo implements [loop.Mover].
func (h *clientTap) MoveTo(to *loop.Loop) { h.inner().MoveTo(to) }

// Retire implements [loop.Retirer].
func (h *clientTap) Retire(c *loop.Conn) { h.inner().Retire(c) }

// backendTap is the handler of a backend's connection while its session is tapped and afterwards, until the connection's fate is known.
// It is no [loop.Mover]: during the session, the client's handler is, and afterwards the connection stays where it is for so long. After
// the session, the session may go on on another loop, so that the audience is a copy.
type backendTap struct {
	audience audience
	tapping  *tapping // nil after the session
	ending   *Session // the session whose lease has ended in the present event; nil for none
	conn     *backend.Conn
	inner    loop.Handler // backendSide, or conn after the session
	side     sideTap
	began    time.Time // of the reset
	removed  bool
}

// Received implements [loop.Handler].
func (h *backendTap) Received(c *loop.Conn, b []byte) int {
	h.side.look(b, h.audience.text)
	if h.tapping == nil {
		h.side.drop()
	}
	n := h.inner.Received(c, b)
	h.side.consumed(n - c.Kept())
	if !h.removed {
		h.side.flushAll(&h.audience, fromBackend)
	}
	return n
}

// Observed implements [backend.Observer].
func (h *backendTap) Observed() loop.Handler { return h.inner }

// TakenBack implements [backend.Observer].
func (h *backendTap) TakenBack(c *backend.Conn) {
	h.tapping.flush()
	for _, t := range h.audience.taps {
		t.follows()
	}
	h.ending = h.tapping.session
	c.Stream().Loop().Later(func() { h.ending = nil })
	h.inner, h.tapping = c, nil
	h.side.drop()
}

// Fate implements [backend.Observer].
func (h *backendTap) Fate(o backend.Outcome, why string) {
	if h.tapping != nil { // a panic has ended the lease
		h.TakenBack(h.conn)
	}
	h.side.flush(&h.audience, fromBackend, h.conn.Scanner.Frames, true)
	e := TapEvent{Event: tapConnection, What: o.String(), Reason: why, Backend: h.conn.Backend().Name()}
	if o == backend.Resetting || o == backend.Ended {
		if h.began.IsZero() { // otherwise the reset was sent in the place of the client's last message
			h.began = time.Now()
		}
		h.audience.emit(e)
		return
	}
	if !h.began.IsZero() {
		e.Elapsed = time.Since(h.began)
	}
	h.audience.emit(e)
	h.remove()
	for _, t := range h.audience.taps {
		t.release(nil)
	}
}

// remove makes the observed handler that of the stream again.
func (h *backendTap) remove() {
	h.removed = true
	h.conn.Stream().SetHandler(h.inner)
}

// Sent implements [backend.Observer].
func (h *backendTap) Sent(op frame.Opcode, payload []byte) {
	if h.tapping != nil {
		h.tapping.flush()
	} else {
		h.side.flush(&h.audience, fromBackend, h.conn.Scanner.Frames, true)
	}
	h.audience.sent(fromBackend, op, payload)
}

// Flushed implements [loop.Handler].
func (h *backendTap) Flushed(c *loop.Conn) { h.inner.Flushed(c) }

// Ended implements [loop.Handler].
func (h *backendTap) Ended(c *loop.Conn, err error) { h.inner.Ended(c, err) }

// Stalled implements [loop.StallHandler].
func (h *backendTap) Stalled(c *loop.Conn) {
	if inner, ok := h.inner.(loop.StallHandler); ok {
		inner.Stalled(c)
	}
}

// Expired implements [loop.TimerHandler].
func (h *backendTap) Expired(c *loop.Conn, t *loop.Timer) { h.inner.(loop.TimerHandler).Expired(c, t) }

// Retire implements [loop.Retirer].
func (h *backendTap) Retire(c *loop.Conn) {
	if h.ending != nil { // it may not know that the lease has ended
		(*backendSide)(h.ending).Retire(c)
		return
	}
	h.inner.(loop.Retirer).Retire(c)
}

// SendPing implements [backend.LeaseHolder].
func (h *backendTap) SendPing() { h.inner.(backend.LeaseHolder).SendPing() }

// Apply implements [backend.LeaseHolder].
func (h *backendTap) Apply(step profile.Step) { h.inner.(backend.LeaseHolder).Apply(step) }

// framesHandled returns how many of the client's data frames were handled.
func (s *Session) framesHandled() uint64 {
	if f := s.failover; f != nil && f.machine.Streams() {
		return f.framesBefore + f.outgoing.Frames
	}
	return s.scanner.Frames
}
