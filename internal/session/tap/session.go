package tap

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Events, and who does something; see api.TapEvent.
const (
	sessionEvent    = "session"
	frameEvent      = "frame"
	verdictEvent    = "verdict"
	connectionEvent = "connection"

	fromClient  = "client"
	fromBackend = "backend"
	fromProxy   = "proxy"
)

// Session is a session as its taps know it. All methods but Post are called on its loop.
type Session interface {
	// Post calls f on the session's loop. Any goroutine may call it. It returns false if the loop has been stopped.
	Post(f func()) bool
	// About says which session it is.
	About() About
	// Scanner returns what scans the client's frames.
	Scanner() *frame.Scanner
	// FramesHandled returns how many of the client's data frames were handled.
	FramesHandled() uint64
	// Scans reports whether what the client sends is still scanned.
	Scans() bool
	// Drops reports whether the client's data goes nowhere.
	Drops() bool
	// End says how the session has ended.
	End() End
	// Untapped tells that the last tap has ended: the session no longer needs its filters.
	Untapped()
}

// About is which session it is, and what it is doing.
type About struct {
	ID      record.ID
	Service string
	Client  origin.Address
	Backend string // whose connection it has; empty for none
	State   string
}

// End is how a session has ended.
type End struct {
	By      string
	Code    frame.CloseCode
	Reason  string
	Backend string // whose connection it had last; empty for none
	Lasted  time.Duration
}

// Tapped is what taps need of one session. It is owned by the session's loop. A session that is not tapped has nil: the methods that a session
// calls do nothing then.
type Tapped struct {
	session   Session
	audience  audience
	client    clientFilter
	backend   *backendFilter // of the present leg, or the last; nil before the first
	about     string         // whose message the boundary's step is about; empty if it is about none
	over      bool           // the end of the session was shown
	forgotten bool           // the session has gone
}

func newTapped(s Session, id record.ID) *Tapped {
	t := &Tapped{session: s, audience: audience{session: id.String()}}
	t.client.tapped, t.client.side = t, newSide(s.Scanner())
	return t
}

// audience is who hears of a session: its taps. A copy is independent of the original.
type audience struct {
	session string // its ID
	taps    []*Tap // not changed in place
	text    int    // the longest text that one of them shows, in bytes
}

func (a *audience) emit(e Event) {
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

// sent shows a frame that the proxy itself sends.
func (a *audience) sent(to string, op frame.Opcode, payload []byte) {
	e := Event{Event: frameEvent, From: fromProxy, To: to, Kind: op.String(), Size: int64(len(payload)), Fin: true}
	switch op {
	case frame.Text:
		shown := payload[:min(len(payload), a.text+1)]
		e.Text, e.Cut = cutText(string(shown), a.text, false)
	case frame.Close:
		e.showClose(payload)
	}
	a.emit(e)
}

// Count returns how many taps watch the session.
func (t *Tapped) Count() int {
	if t == nil {
		return 0
	}
	return len(t.audience.taps)
}

// remove removes a tap.
func (t *Tapped) remove(tap *Tap) {
	if !slices.Contains(t.audience.taps, tap) {
		return
	}
	t.audience.set(slices.DeleteFunc(slices.Clone(t.audience.taps), func(other *Tap) bool { return other == tap }))
	if len(t.audience.taps) == 0 {
		t.session.Untapped()
	}
}

// BeforeClient returns the filter in front of the next handler of the client's connection.
func (t *Tapped) BeforeClient(next loop.Handler) loop.Handler {
	if t == nil {
		return next
	}
	t.client.Handler = next
	return &t.client
}

// BeforeBackend returns the filter in front of the next handler of the leased connection.
func (t *Tapped) BeforeBackend(conn *backend.Conn, next loop.Handler) loop.Handler {
	if t == nil {
		return next
	}
	if b := t.backend; b == nil || b.conn != conn || b.tapped == nil {
		t.backend = &backendFilter{audience: &t.audience, tapped: t, conn: conn, side: newSide(&conn.Scanner)}
	}
	t.backend.Handler = next
	return t.backend
}

// emit shows an event that is about all of the session, behind the frames that were handled before it.
func (t *Tapped) emit(e Event) {
	if t != nil {
		t.flush()
		t.audience.emit(e)
	}
}

// flush shows the frames that were handled.
func (t *Tapped) flush() {
	t.client.side.flush(&t.audience, fromClient, t.session.FramesHandled(), true)
	if b := t.backend; b != nil && b.tapped != nil {
		b.flush()
	}
}

// Greeted shows the frames that the server sent before the session, which the proxy sends the client now.
func (t *Tapped) Greeted(frames []byte) {
	if t == nil {
		return
	}
	side := newSide(new(frame.Scanner))
	side.look(frames, t.audience.text)
	for i := range side.seen {
		side.seen[i].event.To, side.seen[i].event.Reason = fromClient, "greeting"
	}
	side.show(&t.audience, fromProxy, len(side.seen))
}

// ClientStep shows what the boundary makes of a piece of the client's message.
func (t *Tapped) ClientStep(step profile.Step, raw []byte, ends bool) {
	if t != nil {
		t.step(fromClient, step, raw, ends)
	}
}

// BackendStep is ClientStep for the backend's message.
func (t *Tapped) BackendStep(step profile.Step, raw []byte, ends bool) {
	if t != nil {
		t.step(fromBackend, step, raw, ends)
	}
}

// passWords are the verdicts on messages, by profile.Pass.
var passWords = [...]string{
	profile.Relay: "passed", profile.Hold: "held", profile.Release: "released", profile.Drop: "dropped", profile.Keep: "waits",
}

// step shows the boundary's verdict on a frame, when the frame has ended or was not taken.
func (t *Tapped) step(from string, step profile.Step, raw []byte, ends bool) {
	t.about = from
	side, frames := &t.client.side, uint64(0)
	if from == fromClient {
		frames = t.session.FramesHandled()
	} else {
		side, frames = &t.backend.side, t.backend.conn.Scanner.Frames
	}
	switch {
	case step.Pass == profile.Keep:
		frames++ // the scanner is still before it
	case step.Pass != profile.Release && (raw == nil || !ends):
		return
	}
	side.flush(&t.audience, from, frames, false)
	t.audience.emit(Event{Event: verdictEvent, From: from, What: passWords[step.Pass]})
}

// Followed shows what else a step asks for.
func (t *Tapped) Followed(step profile.Step) {
	if t != nil {
		t.followed(step)
	}
}

func (t *Tapped) followed(step profile.Step) {
	from := t.about
	t.about = ""
	verdict := func(what string, reason profile.Reason) {
		t.emit(Event{Event: verdictEvent, From: from, What: what, Reason: reason.String()})
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

// Hidden shows that the client does not get the backend's message.
func (t *Tapped) Hidden() { t.emit(Event{Event: verdictEvent, From: fromBackend, What: "hidden"}) }

// Forgot tells that frames of the backend no longer count, which were shown.
func (t *Tapped) Forgot(frames int) {
	if t == nil {
		return
	}
	side := &t.backend.side
	side.frames -= uint64(frames)
	for i := range side.seen {
		if f := &side.seen[i]; f.number != 0 {
			f.number -= uint64(frames)
		}
	}
}

// Reset shows that the profile's reset replaces the client's last message.
func (t *Tapped) Reset() {
	if t != nil {
		t.backend.began = time.Now()
		t.emit(Event{Event: verdictEvent, What: "reset", Reason: t.backend.conn.Boundary().Awaited()})
	}
}

// SentToBackend shows a frame that the proxy has made of the client's.
func (t *Tapped) SentToBackend(op frame.Opcode, payload []byte) {
	if t != nil {
		t.audience.sent(fromBackend, op, payload)
	}
}

// Moving shows that the session looks for another connection.
func (t *Tapped) Moving(reason string) {
	t.emit(Event{Event: sessionEvent, What: "moving", Reason: reason})
}

// Moved shows that the session has a connection of another backend.
func (t *Tapped) Moved(backend string) {
	t.emit(Event{Event: sessionEvent, What: "moved", Backend: backend})
}

// Ended shows the end of the session, once.
func (t *Tapped) Ended() {
	if t == nil || t.over {
		return
	}
	t.over = true
	e := t.session.End()
	t.emit(Event{Event: sessionEvent, What: "ended", From: e.By, Code: uint16(e.Code), Reason: e.Reason, Backend: e.Backend, Elapsed: e.Lasted})
}

// Forgotten ends the taps' part in the session, which has ended for good.
func (t *Tapped) Forgotten() {
	if t == nil {
		return
	}
	t.Ended()
	t.client.side.flush(&t.audience, fromClient, t.session.FramesHandled(), true)
	t.forgotten = true
	taps := t.audience.taps
	t.audience.set(nil)
	for _, tap := range taps {
		tap.release(t)
	}
}

// Sent tells the tap in front of a connection's handler, if there is one, that the proxy itself sends a frame there.
func Sent(to *loop.Conn, op frame.Opcode, payload []byte) {
	if f, ok := loop.As[interface{ Sent(frame.Opcode, []byte) }](to.Handler()); ok {
		f.Sent(op, payload)
	}
}
