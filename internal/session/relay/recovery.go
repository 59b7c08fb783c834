package relay

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A session can outlive its server: what its client has sent and no server has answered for good is kept, and another server gets it.
// A machine decides what follows from what happens (internal/session/relay/failover); these files keep the messages and send them:
//
//   - recovery.go: what a session needs for that, and what the machine makes it do
//   - recoveryup.go: from the client: whole messages, which become entries of the window
//   - recoveryleg.go: to the server: from the cursor on, leaving a server, and the replay to the next one
//   - recoverydown.go: from the server to the client: whole messages, judged, and whether any come
//   - pendingmove.go: moves that were ordered
//   - lifetime.go: moves away from servers that will end the session
//   - assembly.go: whole messages from frames
//
// A session is recoverable while another server could continue it. Then each message of the client becomes an entry of the window, and a
// cursor goes over the entries: those before it were sent to the present server. Messages that come now and a replay take the same path;
// the cursor is just at the end, or not. The server gets whole messages only, and so does the client.
//
// A session that is no longer recoverable continues: its client's messages stream to the server piece by piece, as without failover. It is
// recoverable again when everything that the client has sent is answered, unless something prevents that for good.
//
// docs/architecture.md follows a crash through these files ("The path of a crash").

// recovery is what a session needs to outlive its server. It is owned by the session's loop, and does not exist for a session whose
// service and profile need none of it.
type recovery struct {
	session *Session         // see Session.moveInto
	tracker *profile.Tracker // static
	machine failover.Machine
	logged  bool // the log has a line about the session being no longer recoverable

	// From the client: recoveryup.go.
	up           assembly
	window       replay.Window
	rest         []byte            // data frames that wait: the client is not read meanwhile
	outgoing     frame.Scanner     // of what streams to the server
	framesBefore uint64            // for taps: frames that outgoing does not count
	first        profile.Entry     // of the client's first message
	closing      []byte            // the payload of the client's close frame, which waits until all is sent; nil for none
	limit        int64             // bytes of audio that the service's ReplayWindow is; 0 before the first audio
	waiting      *resume.Gathering // counts what is in up and rest; nil while it is little

	// To the server: recoveryleg.go.
	resent  []configured     // what configures the present server, and that it has not got
	sent    uint64           // messages that the present server has got, without those that outgoing has counted
	from    profile.Position // the first audio of the present leg
	paced   loop.Instant     // when the present server got the first audio of a replay
	timer   loop.Timer       // the next step of the replay
	left    left             // the server that was left last
	moves   []Move           // the last few
	relayed meter.Relayed    // over former legs
	pumping bool             // guards pump against itself

	// From the server: recoverydown.go.
	signs uint32 // messages that show that the server works
	down  assembly
	// partial is when the first partial result came since the last final one; 0 for none.
	partial loop.Instant
	late    time.Duration        // how late the last final result came, see noteLate
	lateAt  loop.Instant         // when that was; 0 for never
	watch   *failover.StallWatch // nil if stalls are not looked for
	look    loop.Timer           // when it is looked for stalls next

	pending  pendingMove
	lifetime failover.Lifetime
	leaving  loop.Timer // when the session begins to leave its server for that, or tries again
}

// left is a server that a session has left, and how the session ends if no other continues it.
type left struct {
	backend *backend.Backend
	meter   *meter.Backend // its counters, held until it is known what came of the move; nil after that
	at      loop.Instant
	cause   meter.Cause

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

// newRecovery returns what a session needs to outlive its server, nil for nothing. query is the raw query of its client's URL.
func newRecovery(s *Session, query string) *recovery {
	service := s.record.Service
	says := service.Profile.Failover()
	kept := service.Failover && says.Verdict != profile.Never && s.sessions.options.Replay != nil
	watched := service.StallTimeout > 0 && says.Stall != profile.StallNone
	timed := service.LagLimit > 0 && says.TellsLag()
	counted := service.AudioIdle > 0 && says.AudioKinds() == 0 // only the tracker knows audio
	if !kept && !watched && !timed && !counted && !says.Continues {
		return nil
	}
	f := &recovery{session: s, tracker: profile.NewTracker(service.Profile, query), machine: failover.New(kept)}
	if watched {
		f.watch = failover.NewStallWatch(says.Stall, service.StallTimeout, service.StallLearned)
	}
	if kept {
		client := s.client
		tenant, network := f.owner()
		f.window.SetArena(s.sessions.options.Replay, replay.Owner{Tenant: tenant, Network: network, GiveUp: func() { client.Post(f.giveUp) }})
	} else {
		f.stream()
	}
	return f
}

// owner returns whose memory is used.
func (f *recovery) owner() (tenant, network string) {
	r := &f.session.record
	return record.TenantOf(r.Identity), limits.NameOfAddress(limits.AddressOf(r.Client.Addr()))
}

// lose reports that what the client sends, or has sent, cannot be kept.
func (f *recovery) lose(reason meter.Unrecoverable, why string, forGood bool) {
	if state := f.machine.State(); state == failover.Off || state == failover.GivenUp {
		return // for each message that follows
	}
	f.happens(&failover.Event{
		Kind: failover.KeepingFailed, Loss: failover.Loss{Reason: reason, Why: why, ForGood: forGood},
		Next: f.window.Next(), Configured: len(f.resent) == 0,
	})
}

// loseAgain reports once more what had happened while the session had no server.
func (f *recovery) loseAgain() {
	if why := f.tracker.Whole(); why != "" {
		f.lose(meter.UnrecoverableFormat, why, true)
	}
	f.giveUp()
}

// noteLoss counts and logs why the session is no longer recoverable.
func (f *recovery) noteLoss(l *failover.Loss) {
	s := f.session
	s.meter.BecameUnrecoverable(l.Reason)
	if !f.logged {
		f.logged = true
		s.sessions.shared.Log.Info("session is no longer recoverable", append(attrs(s.record.Attrs()), slog.String("reason", l.Why))...)
	}
}

// giveUp frees what is kept, if others need the memory, who have less of it.
func (f *recovery) giveUp() {
	if f.machine.Recoverable() && f.window.Asked() {
		f.loseMemory()
	}
}

func (f *recovery) loseMemory() {
	f.lose(meter.UnrecoverableMemory, "the proxy's replay-memory is used up", false)
}

func attrs(list []slog.Attr) (all []any) {
	for _, a := range list {
		all = append(all, a)
	}
	return all
}

// stream lets the client's messages stream to the server, from the beginning of the one under way on. Nothing is kept.
func (f *recovery) stream() {
	s := f.session
	f.window.Free()
	if s.life.state == relaying && !f.up.between() {
		f.restore(f.up.begun(), f.rest)
		f.up.reset()
		s.client.Post(f.pump) // later, since the leg may only be beginning
	}
	waiting := frame.NewClientScanner(0)
	_, _ = waiting.Next(f.rest)
	f.outgoing, f.framesBefore = frame.NewClientScanner(0), s.scanner.Frames-waiting.Frames
	if conn := s.leg.conn; conn != nil {
		s.leg.up.scanner = &f.outgoing
		f.outgoing.Inspect = conn.Boundary().Inspect(profile.FromClient)
	}
}

// keepAgain ends that.
func (f *recovery) keepAgain() {
	f.sent += f.outgoing.Messages
	f.outgoing = frame.NewClientScanner(0)
	f.session.leg.up.scanner = nil
	f.session.scanner.Inspect = 0
}

// answered reports that something was answered for good.
func (f *recovery) answered() {
	if f.machine.AwaitsAnswer() {
		e := f.moveEvent(failover.Answered)
		e.Settled, e.Received = f.settled(), f.tracker.Received()
		f.happens(&e)
	}
}

// settled reports whether nothing is under way in either direction, so that the client's next message may be kept.
func (f *recovery) settled() bool {
	s := f.session
	return s.life.state == relaying && s.leg.first == nil && f.up.between() && f.outgoing.AtMessageBoundary() && len(f.rest) == 0 &&
		!f.down.skipping && f.tracker.Whole() == ""
}

// end gives everything back.
func (f *recovery) end() {
	f.happens(&failover.Event{Kind: failover.Ended})
	f.timer.Stop()
	f.look.Stop()
	f.pending.due.Stop()
	f.leaving.Stop()
	f.up.reset()
	f.down.reset()
	f.window.Free()
	f.rest, f.resent = nil, nil
	if f.waiting != nil {
		f.waiting.Leave()
		f.waiting = nil
	}
}

// takeTimers takes the timers off their loop before the session moves to another one, and putTimers puts them there.
func (f *recovery) takeTimers() {
	if f != nil {
		f.timer.Take()
		f.look.Take()
		f.pending.due.Take()
		f.leaving.Take()
	}
}

func (f *recovery) putTimers() {
	if f != nil {
		f.timer.Put()
		f.look.Put()
		f.pending.due.Put()
		f.leaving.Put()
	}
}

// Recoverability is whether another server could continue a session, and what is kept for that.
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

// describe adds what a list of sessions shows of the session's failover.
func (f *recovery) describe(d *Description) {
	if f == nil {
		return
	}
	d.Recoverable, d.Kept = f.machine.Recoverable(), f.window.Size()
	if f.session.record.Service.Failover {
		d.Unrecoverable = f.unrecoverable()
	}
}

// recoverability describes the session's failover; nil if it has none.
func (f *recovery) recoverability() *Recoverability {
	if f == nil {
		return nil
	}
	t := f.tracker
	return &Recoverability{
		Recoverable: f.machine.Recoverable(), Why: f.unrecoverable(), Kept: f.window.Size(), Memory: f.window.Memory(),
		Audio: t.Duration(int64(t.Received())), Answered: t.Duration(int64(t.Answered())),
		Moves: append([]Move(nil), f.moves...),
	}
}

// unrecoverable returns why no other server could continue the session; empty if one could.
func (f *recovery) unrecoverable() string {
	if f.machine.State() != failover.Off {
		return f.machine.Unrecoverable()
	}
	if service := f.session.record.Service; service.Failover {
		return service.Profile.Failover().Why
	}
	return "its service has failover: off"
}
