package session

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A session can outlive its server: what its client has sent and no server has answered for good is kept, and another server gets it.
//
//   - failover.go: what a session needs for that, when it is recoverable and when not
//   - failoverup.go: from the client to the server: the window and its cursor
//   - failoverdown.go: from the server to the client: whole messages, judged
//   - failovermove.go: leaving a server, and the replay to the next one
//   - assembly.go: whole messages from frames
//
// A session is recoverable while another server could go on with it. Then each message of the client becomes an entry of the window, and a
// cursor goes over the entries: those before it were sent to the present server. Messages that come now and a replay take the same path;
// the cursor is just at the end, or not. The server gets whole messages only, and so does the client.
//
// A session that is no longer recoverable continues: its client's messages stream to the server piece by piece, as without failover. It is
// recoverable again when everything that the client has sent is answered, unless something is in the way for good.

// failover is what a session needs to outlive its server. It is owned by the session's loop, and does not exist for a session whose
// service and profile need none of it.
type failover struct {
	session *Session         // see Session.moveInto
	tracker *profile.Tracker // static
	kept    bool             // static: the service keeps what clients send, so that the session may be recoverable

	// Why the session is not recoverable, if it is kept.
	recoverable   bool
	streaming     bool // the client's messages go to the server as they come
	forGood       bool // it will not be recoverable again
	unrecoverable meter.Unrecoverable
	why           string
	logged        bool // the log has a line about that

	// From the client to the server: failoverup.go.
	up           assembly
	window       replay.Window
	cursor       int64 // number of the next message that the present server gets
	reached      int64 // what any server has got: the highest cursor
	resent       []configured
	rest         []byte        // data frames that wait: the client is not read meanwhile
	outgoing     frame.Scanner // of what streams to the server
	framesBefore uint64        // for taps: frames that outgoing has not counted
	sent         uint64        // messages that the present server has got, without those that outgoing has counted
	first        profile.Entry // of the client's first message
	closing      []byte        // the payload of the client's close frame, which waits until all is sent; nil for none
	limit        int64         // bytes of audio that the service's ReplayWindow is; 0 before the first audio
	pumping      bool
	leftAlone    bool // nothing was answered since the session moved, so that what is kept may be older than the window for a while

	// From the server to the client: failoverdown.go.
	down  assembly
	signs uint32      // messages that show that the server works
	watch *stallWatch // stall.go; nil if stalls are not looked for

	// Moves: failovermove.go.
	legs      int
	began     loop.Instant     // the present leg, if it is not the first
	from      profile.Position // the first audio of the present leg
	replaying bool             // the present server gets what was kept
	caughtUp  bool             // it has got what the former one had
	timer     loop.Timer       // the next step of the replay
	due       loop.Timer       // when the pending move is carried out by replay
	lost      lost             // the server that was left last
	crashes   uint8            // servers in a row that failed soon after they got the replay
	dead      uint8            // those that failed at once: perhaps they had been dead before
	period    loop.Instant     // when inPeriod was 0
	inPeriod  uint16           // moves since then
	moves     []Move           // the last few
	relayed   meter.Relayed    // over former legs
	pending   pendingMove      // see pendingmove.go
}

// lost is a server that a session has left, and how the session ends if no other goes on with it.
type lost struct {
	backend  *backend.Backend
	meter    *meter.Backend // its counters, held until it is known what came of the move; nil after that
	cause    meter.Cause
	at       loop.Instant
	answered profile.Position
	unjudged bool // its end counts against it as soon as another server goes on with the session
	waits    bool // the client has got nothing from another server yet
	moved    bool // another server has begun to go on
	noted    bool // and has got what this one had

	by     party
	class  meter.Class
	code   frame.CloseCode
	reason string
}

// Move is a session's move from one server to the next.
type Move struct {
	At       time.Time // when the session left
	From, To string    // backends
	Cause    meter.Cause
	Replayed time.Duration // audio that the next server got again
	Took     time.Duration // until that had got all that the former one had; 0 before that
}

// maxMovesShown is how many moves of a session are remembered.
const maxMovesShown = 16

// newFailover returns what a session needs to outlive its server, nil for nothing. query is the raw query of its client's URL.
func newFailover(s *Session, query string) *failover {
	service := s.record.Service
	says := service.Profile.Failover()
	kept := service.Failover && says.Verdict != profile.Never && s.server.options.Replay != nil
	watched := service.StallTimeout > 0 && says.Stall != profile.StallNone
	if !kept && !watched && !says.Continues {
		return nil
	}
	f := &failover{session: s, tracker: profile.NewTracker(service.Profile, query), kept: kept, recoverable: kept, caughtUp: true}
	if watched {
		f.watchServer(says.Stall)
	}
	if kept {
		client := s.client
		f.window.SetArena(s.server.options.Replay, replay.Owner{
			Tenant: tenantOf(s.record.Identity), Network: limits.NameOfAddress(limits.AddressOf(s.record.Client.Addr())),
			GiveUp: func() { client.Post(f.giveUp) },
		})
	} else {
		f.stream()
	}
	return f
}

// lose makes the session unrecoverable. All that was kept must have been sent, or will be before anything else.
func (f *failover) lose(reason meter.Unrecoverable, why string, forGood bool) {
	f.forGood = f.forGood || forGood
	if !f.recoverable {
		return
	}
	s := f.session
	f.recoverable, f.unrecoverable, f.why = false, reason, why
	s.meter.BecameUnrecoverable(reason)
	f.refuseMove("the session is no longer recoverable: " + why)
	if !f.logged {
		f.logged = true
		s.server.options.Log.Info("session is no longer recoverable", append(attrs(s.record.identity()), slog.String("reason", why))...)
	}
	switch {
	case f.atEnd():
		f.stream()
	case s.life.state == relaying: // no other server gets what this one has got
		f.window.Drop(f.cursor)
	}
}

// giveUp frees what is kept, since others need the memory, who have less of it.
func (f *failover) giveUp() {
	if f.window.Asked() {
		f.loseMemory()
	}
}

func (f *failover) loseMemory() {
	f.lose(meter.UnrecoverableMemory, "the proxy's replay-memory is used up", false)
}

func attrs(list []slog.Attr) (all []any) {
	for _, a := range list {
		all = append(all, a)
	}
	return all
}

// stream lets the client's messages stream to the server, from a message boundary on. Nothing is kept.
func (f *failover) stream() {
	f.streaming = true
	f.window.Free()
	f.cursor, f.reached = f.window.Next(), f.window.Next()
	f.outgoing, f.framesBefore = frame.NewClientScanner(0), f.session.scanner.Frames
	if conn := f.session.leg.conn; conn != nil {
		f.session.leg.up.scanner = &f.outgoing
		f.outgoing.Inspect = conn.Boundary().Inspect(profile.FromClient)
	}
}

// keepAgain makes the session recoverable again if all that its client has sent is answered.
func (f *failover) keepAgain() {
	s := f.session
	switch {
	case f.recoverable || !f.kept || f.forGood || !f.streaming || s.life.state != relaying || s.leg.first != nil:
		return
	case !f.up.between() || !f.outgoing.AtMessageBoundary() || len(f.rest) > 0 || f.down.skipping:
		return
	case f.tracker.Whole() != "" || f.tracker.Answered() < f.tracker.Received() || f.tracker.Received() == 0:
		return
	}
	f.recoverable, f.streaming = true, false
	f.sent += f.outgoing.Messages
	f.outgoing = frame.NewClientScanner(0)
	s.leg.up.scanner = nil
	s.scanner.Inspect = 0
}

// end gives everything back.
func (f *failover) end() {
	f.judgeLost(false)
	f.timer.Stop()
	f.due.Stop()
	if f.watch != nil {
		f.watch.timer.Stop()
	}
	f.refuseMove("the session has ended")
	f.up.reset()
	f.down.reset()
	f.window.Free()
	f.rest, f.resent = nil, nil
}

// takeTimers takes the timers off their loop before the session moves to another one, and putTimers puts them there.
func (f *failover) takeTimers() {
	if f != nil {
		f.timer.Take()
		f.due.Take()
		if f.watch != nil {
			f.watch.timer.Take()
		}
	}
}

func (f *failover) putTimers() {
	if f != nil {
		f.timer.Put()
		f.due.Put()
		if f.watch != nil {
			f.watch.timer.Put()
		}
	}
}

// Recoverability is whether another server could go on with a session, and what is kept for that.
type Recoverability struct {
	Recoverable bool
	Why         string // if it is not recoverable
	// Kept is what is kept in bytes, and Memory what that takes of the process's replay-memory.
	Kept, Memory int64
	// Audio is how long the audio lasts that the client has sent, and Answered up to where that is answered for good. Both are 0 as long
	// as the format is not known.
	Audio, Answered time.Duration
	Moves           []Move // the last few
}

// Lag returns how much audio is not answered.
func (a *Recoverability) Lag() time.Duration { return a.Audio - a.Answered }

// describe adds what a list of sessions shows of the session's failover.
func (f *failover) describe(d *Description) {
	if f == nil {
		return
	}
	d.Recoverable, d.Kept = f.recoverable, f.window.Size()
	if !f.recoverable && f.session.record.Service.Failover {
		d.Unrecoverable = f.whyUnrecoverable()
	}
}

// recoverability describes the session's failover; nil if it has none.
func (f *failover) recoverability() *Recoverability {
	if f == nil {
		return nil
	}
	t := f.tracker
	a := &Recoverability{
		Recoverable: f.recoverable, Why: f.why, Kept: f.window.Size(), Memory: f.window.Memory(),
		Audio: t.Duration(int64(t.Received())), Answered: t.Duration(int64(t.Answered())),
		Moves: append([]Move(nil), f.moves...),
	}
	if a.Why = ""; !f.recoverable {
		a.Why = f.whyUnrecoverable()
	}
	return a
}

// whyUnrecoverable returns why no other server could go on with the session.
func (f *failover) whyUnrecoverable() string {
	switch service := f.session.record.Service; {
	case !service.Failover:
		return "its service has failover: off"
	case !f.kept:
		return service.Profile.Failover().Why
	}
	return f.why
}
