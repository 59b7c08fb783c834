package failover

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// TestMachine lets client, servers, pool, memory, clock and operator do at random what they can do to a session that may outlive its servers,
// with sides that are plain data. What must always hold is checked after each step. TestGuards shows that it finds each guard that is missing.
func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, kept: rapid.IntRange(0, 9).Draw(t, "kept") > 0, now: rapid.SampledFrom([]loop.Instant{1, loop.Instant(time.Hour)}).Draw(t, "now")}
		w.m = New(w.kept)
		w.begins()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if w.over {
				break
			}
			rapid.SampledFrom(steps).Draw(t, "step").does(w)
			w.check()
		}
		w.ends()
	})
}

// step is something that one of the sides does. It does nothing when it cannot happen at that time.
type step struct {
	name string
	does func(*world)
}

func (s step) String() string { return s.name }

var steps = []step{
	{"client sends", (*world).sends},
	{"server takes a message", (*world).takes},
	{"server takes all", (*world).takesAll},
	{"server answers", (*world).answers},
	{"server answers all", (*world).answersAll},
	{"client gets a message", (*world).delivers},
	{"server fails", (*world).fails},
	{"servers fail one after the other", (*world).failsAgain},
	{"servers fail soon", (*world).failSoon},
	{"server refuses", (*world).refuses},
	{"server speaks", (*world).speaks},
	{"another server begins", (*world).begins},
	{"there is no other server", (*world).findsNone},
	{"keeping fails", (*world).keepingFails},
	{"a message is half-way", (*world).halfWay},
	{"time passes", (*world).waits},
	{"a move is ordered", (*world).orders},
	{"a connection for the move is found", (*world).connects},
	{"the time for the move comes", (*world).comesDue},
	{"the move is checked", (*world).checksMove},
	{"the order is taken back", (*world).withdraws},
	{"there is no connection for the move", (*world).unplaced},
	{"the session moves by order", (*world).moves},
	{"client closes", (*world).closes},
	{"a late event", (*world).comesLate},
}

// world is the sides of a session as data.
type world struct {
	t    *rapid.T
	m    Machine
	kept bool
	now  loop.Instant
	over bool // the session has ended

	// What is kept are the client's messages from first on, up to next; each is ten bytes of audio.
	first, next int64
	done        int64 // of those, the first that is not answered
	gone        int64 // messages that are neither kept nor answered
	received    int64 // messages that the client has sent
	half        bool  // one is half-way

	serving    bool
	server     int
	configured bool // the present server has the configuration
	heard      bool // it has got something of what the client said
	spoke      bool // the client has got something from it
	caughtUp   bool // it was told to have caught up
	legs       []leg
	got        int64 // the servers that the session left had got the messages before this one

	departures []departed
	unsettled  bool // the last one has no outcome yet
	lost       *Loss
	late       []Loss // losses while there was no server
	forGood    bool
	searching  bool // for a connection for the pending move
	connected  bool
	to         int // where the pending move may go; 0 for anywhere
	told       map[Action]int
	attempts   int          // times that it was to move, and no limit on their number was in the way
	period     loop.Instant // when they were 0
	underWay   bool         // the session is on its way for the pending move
}

// leg is what one server did.
type leg struct {
	began, failed loop.Instant
	answered      bool // it, or one before it since the last departure, has answered something
	planned       bool // the session left it by order
	refused       bool
}

// departed is one departure.
type departed struct {
	server   int
	cause    meter.Cause
	code     frame.CloseCode
	at       loop.Instant
	spared   bool
	blamed   int
	counted  int
	measured int
	noted    int
}

func (w *world) must(holds bool, format string, args ...any) {
	w.t.Helper()
	if !holds {
		w.t.Fatalf("%s (%v, leg %d)", fmt.Sprintf(format, args...), w.m.State(), len(w.legs))
	}
}

// event returns an event with what decides in general.
func (w *world) event(kind Kind) Event {
	return Event{
		Kind: kind, Now: w.now, Answered: w.answered(), Received: profile.Position(10 * w.received),
		First: w.first, Next: w.next, Configured: w.configured, Settled: !w.half,
		Connected: w.connected, Arrived: w.to == 0 || w.to == w.server,
	}
}

func (w *world) answered() profile.Position {
	return profile.Position(10 * (w.received - w.gone - (w.next - w.done)))
}

// happens reports an event, and does what the machine says.
func (w *world) happens(e *Event) {
	w.t.Helper()
	w.told = make(map[Action]int)
	before := w.m.State()
	pending := w.m.Pending()
	w.underWay = pending.State == MoveUnderWay
	do := w.m.Handle(e, nil)
	if w.m.State() == Left && before != Left {
		w.departs(e)
	}
	for _, a := range do {
		w.told[a]++
		w.perform(a, e)
	}
}

func (w *world) last() *departed {
	if len(w.departures) == 0 {
		return &departed{}
	}
	return &w.departures[len(w.departures)-1]
}

func (w *world) perform(a Action, e *Event) {
	w.t.Helper()
	d := w.last()
	if w.m.State() == Left && (a == Blame || a == BlameAlike || a == CountMoved) && e.Kind != Ended { // it is about the departure before this one
		d = &w.departures[max(0, len(w.departures)-2)]
	}
	switch a {
	case Blame, BlameAlike:
		w.must(d.spared && d.blamed == 0, "a server is blamed that was not spared, or twice")
		w.must(e.Kind == Delivered || e.Kind == ServerFailed || e.Kind == MoveChecked || e.Kind == Answered || e.Kind == Ended, "a server is blamed too early")
		d.blamed++
	case EndAlike:
	case CountMoved:
		w.must(d.counted == 0, "what came of a move is counted twice")
		w.must(w.caughtUp || e.Kind == Delivered || e.Kind == ServerFailed || e.Kind == Ended, "a move is counted too early")
		d.counted++
	case CountNotMoved:
		w.must(e.Kind == SearchFailed && d.counted == 0, "what came of a move is counted twice")
		d.counted++
	case CountStayed:
		w.must(e.Kind == ServerFailed && w.serving && w.kept, "a limit is counted of a server that works, or of none")
	case Redirect:
		w.must(d.counted == 1, "a move leads elsewhere that was not recorded")
	case Measure:
		w.must(!d.cause.Planned() && d.measured == 0 && w.spoke, "an outage is measured that was none, or twice")
		d.measured++
	case Replay:
		w.must(w.m.Cursor() == w.first, "the replay begins at %d of %d to %d", w.m.Cursor(), w.first, w.next)
		w.configured = false
	case TellCaughtUp:
		if w.m.Recoverable() {
			w.must(w.configured && w.m.Cursor() >= w.got, "a server has caught up that has not got the first %d messages", w.got)
		}
		w.caughtUp = true
	case ForgetRefusals:
		w.must(w.caughtUp, "a server has not caught up")
	case NoteMove:
		w.must(d.counted == 1, "a move is noted that is not recorded")
		d.noted++
	case NoteLoss:
		w.must(w.kept && e.Kind == KeepingFailed, "a session has not stopped being recoverable")
	case Drop:
		w.drop(w.m.Cursor())
	case Stream:
		w.must(w.configured && w.m.Cursor() == w.next, "messages are dropped that no server has got")
		w.drop(w.next)
	case Keep:
		w.must(w.gone == 0 && w.done == w.next && !w.half && w.received > 0, "a session is recoverable of which %d messages are gone", w.gone)
	case LeaveServer:
		w.must(w.connected && w.m.State() == Left, "the session leaves for no connection")
		w.searching, w.connected = false, false
	case NoteArrival:
		w.must(w.underWay || w.to == 0 || w.to == w.server, "the pending move ends elsewhere")
	case StartSearch:
		w.searching, w.connected = true, w.connected && w.searching
	case StopSearch:
		w.searching, w.connected = false, false
	default:
		w.must(false, "unknown action %d", a)
	}
}

// drop forgets kept messages before one of that number.
func (w *world) drop(to int64) {
	if to > w.done {
		w.gone, w.done = w.gone+to-w.done, to
	}
	w.first = to
}

// departs checks a departure.
func (w *world) departs(e *Event) {
	w.must(w.serving && !e.Over && !e.LastWord, "a session leaves without a reason")
	w.must(w.gone == 0, "another server cannot continue the session: %d messages are gone", w.gone)
	w.got = max(w.got, w.m.Cursor())
	w.serving, w.spoke = false, false
	w.searching, w.connected = false, w.connected && e.Kind != ServerFailed // the search for another server takes its place
	l := &w.legs[len(w.legs)-1]
	l.failed, l.planned = w.now, e.Cause.Planned()
	w.departures = append(w.departures, departed{server: w.server, cause: e.Cause, code: e.Code, at: w.now, spared: e.Spared})
	w.unsettled = true
	if e.Kind != ServerFailed {
		w.must(e.Cause == w.m.Pending().Cause, "the session leaves because of %v", e.Cause)
	}
}

func (w *world) sends() {
	switch {
	case w.m.Behind() && !w.m.Recoverable() || w.half: // the client is not read
	case w.m.Streams():
		if w.serving {
			w.received++
			w.gone++
			w.heard = true
		}
	default:
		w.received++
		w.next++
		if w.serving && !w.m.Behind() && w.m.Cursor() == w.next-1 && rapid.Bool().Draw(w.t, "server reads") {
			w.m.Advance()
			w.heard = true
		}
	}
}

func (w *world) halfWay() { w.half = !w.half }

func (w *world) takes() {
	if w.serving && !w.m.Streams() {
		w.take()
		w.progresses()
	}
}

func (w *world) take() {
	if !w.configured {
		w.configured = true
		w.heard = true
	} else if w.m.Cursor() < w.next {
		w.m.Advance()
		w.heard = true
	}
}

func (w *world) takesAll() {
	if w.serving && !w.m.Streams() {
		for !w.configured || w.m.Cursor() < w.next {
			configured, before := w.configured, w.m.Cursor()
			w.take()
			w.must(!configured || w.m.Cursor() == before+1, "the cursor goes from %d to %d", before, w.m.Cursor())
		}
		w.progresses()
	}
}

// progresses reports what the server has got.
func (w *world) progresses() {
	before, behind := w.m.Pending(), w.m.Behind()
	e := w.event(Progressed)
	w.happens(&e)
	w.must(w.caughtUp || !w.configured || w.m.Cursor() < w.got, "a server that has caught up was not told so")
	w.must(!w.configured || w.m.Cursor() < w.next || !w.m.Behind(), "a server that has got everything is behind")
	w.must(!behind || w.m.Behind() || w.configured && w.m.Cursor() == w.next, "a server is no longer behind that has not got everything")
	if w.told[ForgetRefusals] == 0 {
		return
	}
	w.must(w.told[TellCaughtUp] == 1 && w.told[NoteMove] == min(1, len(w.departures)), "a move is not noted")
	if after := w.m.Pending(); w.told[NoteMove] == 1 {
		switch {
		case before.State == MoveUnderWay, before.State == MovePending && e.Arrived:
			w.must(after.State == MoveDone && w.told[NoteArrival] == 1, "the pending move is %v after the session has moved", after.State)
		case before.State == MovePending:
			w.must(after.State == MovePending && w.searching, "the pending move is %v after the session has moved elsewhere", after.State)
		}
	}
}

func (w *world) answers() { w.answer(1) }

func (w *world) answersAll() { w.answer(1 << 40) }

// answer has the server answer messages for good.
func (w *world) answer(n int64) {
	if !w.serving {
		return
	}
	gone := min(n, w.gone)
	done := min(n-gone, max(0, w.m.Cursor()-w.done))
	if gone+done == 0 {
		return
	}
	w.gone, w.done = w.gone-gone, w.done+done
	w.legs[len(w.legs)-1].answered = true
	if w.m.Recoverable() {
		w.first = w.done
	}
	w.spoke = true
	w.hears(Delivered)
	w.hears(Answered)
	w.must(w.forGood || w.gone+w.next-w.done > 0 || w.half || w.m.Recoverable() || w.m.State() != Streaming, "a session stays unrecoverable whose messages are answered")
}

func (w *world) delivers() {
	if w.serving {
		w.spoke = true
		w.hears(Delivered)
	}
}

// hears reports an event as the session does: only if the machine awaits it. It must change nothing otherwise.
func (w *world) hears(kind Kind) {
	e := w.event(kind)
	awaits := w.m.AwaitsDelivery()
	if kind == Answered {
		awaits = w.m.AwaitsAnswer()
	}
	if !awaits {
		m := w.m
		w.must(len(m.Handle(&e, nil)) == 0 && m == w.m, "an event matters that is not awaited")
		return
	}
	before, d, live, may := w.m.Pending(), w.last(), w.m.State() == Live, w.mayMove()
	w.happens(&e)
	w.must((w.told[Keep] == 1) == (!live && w.m.State() == Live), "messages are kept again, or are not")
	if kind == Delivered {
		w.must(!w.unsettled || d.blamed == 1 == d.spared && d.measured == 1 == !d.cause.Planned(), "a move is not settled when the client gets a message")
		w.unsettled = false
		return
	}
	w.judgeMove(before, &e, live, may)
}

// judgeMove checks what a moment for a pending move has led to.
func (w *world) judgeMove(before PendingMove, e *Event, live, may bool) {
	now := w.m.Pending()
	due := before.By != 0 && before.By <= e.Now
	switch moment := e.Kind == Answered || e.First == e.Next || due; {
	case before.State != MovePending:
		w.must(now == before, "a pending move changes that is %v", before.State)
	case !e.Connected || !moment || !live:
		w.must(w.told[LeaveServer] == 0 && now == before, "a move is carried out without a connection, or before its moment")
	case e.Over:
		w.must(now.State == MoveRefused && now.Why == "the session is ending", "a session that ends moves")
	case !may:
		w.must(now.State == MoveRefused && now.Why == "it was moved too often", "a session moves too often")
	default:
		w.attempt()
		w.must(now.State == MoveUnderWay && w.m.State() == Left && w.told[LeaveServer] == 1, "a move is %v, %q, at its moment", now.State, now.Why)
	}
}

// mayMove reports whether the session may move once more within the period.
func (w *world) mayMove() bool { return w.now > w.period.After(movesPeriod) || w.attempts < MaxMoves }

// attempt counts that the session is to move.
func (w *world) attempt() {
	if w.now > w.period.After(movesPeriod) {
		w.period, w.attempts = w.now, 0
	}
	w.attempts++
}

var closings = []frame.CloseCode{frame.InternalError, frame.GoingAway, frame.ServiceRestart, frame.TryAgainLater, frame.NormalClosure}

func (w *world) fails() {
	if !w.serving {
		return
	}
	causes := []meter.Cause{meter.Lost, meter.Protocol, meter.Closed, meter.Stalled}
	e := w.event(ServerFailed)
	e.Cause, e.Code = rapid.SampledFrom(causes).Draw(w.t, "cause"), frame.InternalError
	if e.Cause == meter.Closed {
		e.Code = rapid.SampledFrom(closings).Draw(w.t, "code")
		e.Spared = rapid.Bool().Draw(w.t, "spared")
	}
	e.Over = rapid.IntRange(0, 19).Draw(w.t, "over") == 0
	e.LastWord = rapid.IntRange(0, 19).Draw(w.t, "last word") == 0
	w.fail(e)
}

// fail has the server fail, and checks against the history of the session what follows.
func (w *world) fail(e Event) {
	w.t.Helper()
	last := *w.last()
	e.SameServer, e.Sent = len(w.departures) > 0 && last.server == w.server, w.heard
	recoverable, state, often := w.m.Recoverable(), w.m.State(), !w.mayMove()
	soon := w.suspicious(&w.legs[len(w.legs)-1], w.now)
	graceful := e.Code == frame.GoingAway || e.Code == frame.ServiceRestart || e.Code == frame.TryAgainLater
	alike := e.Cause == meter.Closed && len(w.departures) > 0 && last.cause == meter.Closed && last.code == e.Code && !graceful &&
		last.server != w.server && w.heard && soon
	crashed, dead := w.failures(soon)
	if recoverable && !e.Over && !e.LastWord && !often {
		w.attempt()
	}
	unsettled := w.unsettled
	w.happens(&e)
	switch left := w.m.State() == Left; {
	case e.Over || e.LastWord || !w.kept:
		w.must(!left && w.m.State() == state && e.Why == "" && len(w.told) == 0, "a session changes when its end does not matter: %q", e.Why)
	case !recoverable:
		w.must(!left && len(w.told) == 0, "a session that is not recoverable moves")
		w.must((e.Why == "not moved: "+w.lost.Why) == (e.Code == frame.InternalError) && (e.Why == "") == (e.Code != frame.InternalError), "it says %q", e.Why)
	case often:
		w.must(!left && e.Why == fmt.Sprintf("not moved: it was moved %d times within %v", MaxMoves, movesPeriod), "a session moves too often: %q", e.Why)
	case alike:
		w.must(!left && w.told[EndAlike] == 1 && w.told[BlameAlike] == 1 == (unsettled && last.spared) && e.Why == "another server has ended it in the same way",
			"a session moves that two servers have ended alike: %q", e.Why)
	case crashed >= MaxCrashes || crashed+dead >= MaxDead:
		w.must(!left && e.Why == fmt.Sprintf("moved from %d servers that failed", crashed+dead), "a session moves that kills servers: %q", e.Why)
	default:
		w.must(left && e.Why == "", "a session does not move that may: %q", e.Why)
		w.must(w.told[Blame] == 1 == (unsettled && last.spared), "the server before is blamed: %v", w.told[Blame])
	}
	w.must(w.told[EndAlike] == 0 || alike, "two servers have not ended a session alike")
	if w.m.State() != Left {
		w.must(w.told[CountStayed] == 1 == (recoverable && !e.Over && !e.LastWord), "%d counted", w.told[CountStayed])
		w.finish()
	}
}

// suspicious reports whether a leg that ends now makes the session suspicious of killing servers.
func (w *world) suspicious(l *leg, now loop.Instant) bool {
	if len(w.legs) == 1 || l == &w.legs[0] {
		return false
	}
	return now < l.began.After(CrashTime) && !l.answered
}

// failures counts the servers in a row, up to the present one, that failed soon: those that crashed, and those that may have been dead before.
func (w *world) failures(soon bool) (crashed, dead int) {
	if !soon {
		return 0, 0
	}
	for i := range slices.Backward(w.legs) {
		l := w.legs[i]
		if i == len(w.legs)-1 {
			l.failed = w.now
		}
		switch {
		case l.planned || l.refused:
			continue
		case i == 0 || l.failed >= l.began.After(CrashTime) || l.answered:
			return crashed, dead
		case l.failed > l.began.After(Immediately):
			crashed++
		default:
			dead++
		}
	}
	return crashed, dead
}

// failsAgain has servers fail that have answered in between, so that only the number of moves limits them.
func (w *world) failsAgain() {
	for range rapid.IntRange(2, 2*MaxMoves+2).Draw(w.t, "times") {
		if !w.serving || w.over || !w.m.Recoverable() {
			return
		}
		w.now = w.now.After(CrashTime)
		e := w.event(ServerFailed)
		e.Cause, e.Code = meter.Lost, frame.InternalError
		w.fail(e)
		w.begins()
	}
}

// failSoon has servers fail before they have answered anything, alike or not.
func (w *world) failSoon() {
	for range rapid.IntRange(1, 4).Draw(w.t, "times") {
		if !w.serving || w.over {
			return
		}
		if rapid.Bool().Draw(w.t, "takes") {
			w.takesAll()
		}
		if rapid.IntRange(0, 3).Draw(w.t, "answers") == 0 {
			w.answers()
		}
		if !w.serving { // it has left by order
			return
		}
		w.now = w.now.After(rapid.SampledFrom([]time.Duration{Immediately, 2 * Immediately, CrashTime}).Draw(w.t, "after"))
		e := w.event(ServerFailed)
		if e.Cause, e.Code = meter.Lost, frame.InternalError; rapid.Bool().Draw(w.t, "closes") {
			e.Cause, e.Code, e.Spared = meter.Closed, rapid.SampledFrom(closings[:2]).Draw(w.t, "code"), true
		}
		w.fail(e)
		w.begins()
	}
}

// moves has the session move by order, again and again.
func (w *world) moves() {
	for range rapid.IntRange(1, MaxMoves+2).Draw(w.t, "times") {
		if w.over || !w.serving {
			return
		}
		w.takesAll()
		w.orders()
		w.connects()
		w.answersAll()
		if rapid.IntRange(0, 9).Draw(w.t, "pauses") == 0 {
			return
		}
		w.begins()
		if rapid.IntRange(0, 9).Draw(w.t, "is ordered again") == 0 {
			w.orders()
		}
	}
	w.takesAll()
}

// speaks has the server say something that answers nothing more.
func (w *world) speaks() {
	if w.serving {
		w.spoke = true
		w.hears(Delivered)
		w.hears(Answered)
	}
}

// refuses has the server say that it does not serve the session. It has said nothing to the client.
func (w *world) refuses() {
	l := &w.legs[len(w.legs)-1]
	if !w.serving || w.spoke || l.answered {
		return
	}
	before := w.m.Recoverable()
	e := w.event(ServerRefused)
	w.happens(&e)
	w.must(len(w.told) == 0 && (w.m.State() == TurnedAway) == before, "a server refuses the session, which is %v", w.m.State())
	w.serving, l.refused = false, true
	w.connected, w.searching = false, false // such a search ends
}

// begins has a server begin to serve the session.
func (w *world) begins() {
	if w.serving || w.over {
		return
	}
	before := w.m
	w.server = rapid.IntRange(1, 3).Draw(w.t, "server")
	w.serving, w.heard, w.spoke, w.caughtUp = true, false, false, len(w.legs) == 0
	w.configured = true
	w.legs = append(w.legs, leg{began: w.now})
	e := w.event(LegBegan)
	w.happens(&e)
	w.must(w.m.Legs() == len(w.legs), "%d legs", w.m.Legs())
	switch {
	case len(w.legs) == 1:
		w.must(len(w.told) == 0, "the first server is told something")
	case before.Recoverable() || before.Resumes():
		w.must(w.m.Resumes() && w.m.Recoverable() == before.Recoverable() && w.told[Replay] == 1 && w.m.Began == w.now, "the next server gets no replay")
		w.must(w.told[CountMoved] == 0, "a move is counted although the server may refuse the session")
		w.must(w.told[Redirect] == w.last().counted, "a move has led elsewhere, unnoticed")
	default:
		w.must(w.told[TellCaughtUp] == 1, "a server that gets no replay has nothing to catch up with")
	}
	for _, l := range w.late { // as the session does
		w.loses(l)
	}
	w.late = nil
}

func (w *world) findsNone() {
	if w.serving {
		return
	}
	open := len(w.departures) > 0 && w.last().counted == 0
	e := w.event(SearchFailed)
	w.happens(&e)
	w.must((w.told[CountNotMoved] == 1) == open, "it is not counted that no server continues the session")
	w.finish()
}

func (w *world) keepingFails() {
	l := Loss{
		Reason: meter.Unrecoverable(rapid.IntRange(0, meter.UnrecoverableReasons-1).Draw(w.t, "reason")), ForGood: rapid.Bool().Draw(w.t, "for good"),
	}
	l.Why = fmt.Sprintf("%v %v", l.Reason, l.ForGood)
	if !w.serving {
		before := w.m
		e := w.event(KeepingFailed)
		e.Loss = l
		if before.Recoverable() || !w.kept {
			w.happens(&e)
			w.must(len(w.told) == 0 && w.m == before, "what the next server is to get is dropped")
		}
		if before.Recoverable() {
			w.late = append(w.late, l)
		}
		return
	}
	w.loses(l)
}

func (w *world) loses(l Loss) {
	before, pending := w.m.State(), w.m.Pending()
	e := w.event(KeepingFailed)
	e.Loss = l
	w.happens(&e)
	if !w.kept {
		w.must(len(w.told) == 0 && w.m.State() == Off, "nothing was kept")
		return
	}
	w.must((w.told[NoteLoss] == 1) == rulesOf[before].recoverable, "a loss is not noted, or twice")
	w.must((w.told[Drop] == 1) == (rulesOf[before].recoverable && !w.m.Resumes()), "what another server needs is dropped, or what none needs is kept")
	w.must(!w.m.Recoverable(), "a session stays recoverable of which nothing can be kept")
	w.must(!rulesOf[before].recoverable || !w.configured || w.m.Cursor() < w.next || w.m.Streams(), "messages do not stream although all is sent")
	w.must(!w.m.Streams() || l.ForGood || w.forGood || w.m.State() == Streaming, "a session is given up")
	if rulesOf[before].recoverable || l.ForGood && !w.forGood || w.m.Behind() && !w.forGood {
		w.lost = &l
	}
	if w.forGood = w.forGood || l.ForGood; w.forGood && w.m.Streams() {
		w.must(w.m.State() == GivenUp, "a session is not given up")
	}
	w.must(w.m.Unrecoverable() == w.lost.Why, "it is unrecoverable because of %q; want %q", w.m.Unrecoverable(), w.lost.Why)
	if after := w.m.Pending(); pending.IsOpen() {
		w.must(after.State == MoveRefused && after.Why == "the session is no longer recoverable: "+l.Why, "the pending move is %v: %q", after.State, after.Why)
	}
}

func (w *world) waits() {
	w.now = w.now.After(rapid.SampledFrom([]time.Duration{
		10 * time.Millisecond, Immediately, Immediately + 1, time.Second, CrashTime, CrashTime + time.Second, movesPeriod, 2 * movesPeriod,
	}).Draw(w.t, "time"))
}

func (w *world) orders() {
	e := w.event(MoveOrdered)
	e.Move = PendingMove{Number: uint64(w.now) + 1, Cause: meter.Ordered}
	if rapid.Bool().Draw(w.t, "in time") {
		e.Move.By = w.now.After(time.Second)
	}
	if !w.serving {
		return
	}
	before := w.m.Pending()
	to := rapid.IntRange(0, 3).Draw(w.t, "to")
	w.happens(&e)
	switch after := w.m.Pending(); {
	case !w.m.Recoverable():
		w.must(after == before && e.Why != "", "an unrecoverable session takes an order")
	case before.State == MoveUnderWay:
		w.must(after == before && e.Why == "it is on its way to another backend already", "a move under way is forgotten")
	default:
		w.must(after.State == MovePending && after.Number == e.Move.Number && after.By == e.Move.By && after.Cause == e.Move.Cause && after.Why == "" && e.Why == "",
			"an order is not taken")
		w.must(w.told[StartSearch] == 1, "no connection is looked for")
		w.to, w.connected = to, false
	}
}

func (w *world) connects() {
	if w.searching && w.serving {
		w.connected = true
		w.checksMove()
	}
}

func (w *world) checksMove() {
	if !w.serving {
		return
	}
	before, may, m := w.m.Pending(), w.mayMove(), w.m.State()
	e := w.event(MoveChecked)
	e.Connected = e.Connected || before.State != MovePending // which a late connection may be
	e.Over = rapid.IntRange(0, 9).Draw(w.t, "over") == 0
	w.happens(&e)
	if m != Live {
		w.must(w.m.Pending() == before && len(w.told) == 0, "a session moves that is not live")
		return
	}
	w.judgeMove(before, &e, true, may)
}

func (w *world) comesDue() {
	w.connects()
	w.now = w.now.After(time.Second)
	w.checksMove()
}

func (w *world) withdraws() {
	before := w.m.Pending()
	e := w.event(MoveWithdrawn)
	w.happens(&e)
	if after := w.m.Pending(); before.State == MovePending {
		w.must(after.State == MoveRefused && after.Why == "it was taken back" && !w.searching, "an order is not taken back")
	} else {
		w.must(after == before, "an order is taken back that is %v", before.State)
	}
}

func (w *world) unplaced() {
	if !w.searching || !w.serving {
		return
	}
	e := w.event(MoveUnplaced)
	e.Why = "no place"
	w.happens(&e)
	pending := w.m.Pending()
	w.must(pending.State == MoveRefused && pending.Why == "no place" && !w.searching, "a move without a connection is %v", pending.State)
}

func (w *world) closes() { w.finish() }

// comesLate is an event that no longer fits: the server that was left fails, or refuses.
func (w *world) comesLate() {
	if w.serving {
		return
	}
	before := w.m
	for _, kind := range []Kind{ServerFailed, ServerRefused, MoveChecked} {
		e := w.event(kind)
		e.Cause, e.Code, e.Connected = meter.Lost, frame.NormalClosure, true
		w.happens(&e)
		w.must(w.m == before && len(w.told) == 0, "a late event changes something")
	}
}

// finish ends the session.
func (w *world) finish() {
	if w.over {
		return
	}
	w.over = true
	before := w.m.Pending()
	e := w.event(EndDecided)
	w.happens(&e)
	if pending := w.m.Pending(); before.State == MovePending || before.State == MoveUnderWay {
		w.must(pending.State == MoveRefused && pending.Why == "the session is ending", "a pending move outlives its session")
	}
	w.must(!w.searching, "a session looks for a connection for its move, and has ended")
	e = w.event(Ended)
	w.happens(&e)
	w.must(w.told[CountMoved] == 0 || w.serving || !w.m.Recoverable(), "a session has moved that has no server")
}

func (w *world) ends() {
	w.finish()
	for i := range w.departures {
		d := &w.departures[i]
		w.must(d.blamed == 1 == d.spared, "departure %d is blamed %d times", i, d.blamed)
		w.must(d.counted == 1 || i == len(w.departures)-1 && !w.serving, "it is not counted what came of departure %d", i)
	}
}

// check checks what must always hold.
func (w *world) check() {
	state := w.m.State()
	w.must(w.kept || state == Off, "a session whose messages are not kept is %v", state)
	if w.over {
		return
	}
	w.must(w.serving == (state != Left && state != TurnedAway) || !w.serving && !w.m.Recoverable(), "serving is %v", w.serving)
	w.must(!w.m.Recoverable() || w.gone == 0, "a session is recoverable of which %d messages are gone", w.gone)
	w.must(!w.forGood || !w.m.Recoverable(), "a session is recoverable again that was given up")
	w.must(w.m.Recoverable() || !w.serving || w.m.Behind() != w.m.Streams(), "messages neither stream nor drain")
	if w.serving && !w.m.Behind() && !w.m.Streams() {
		w.must(w.configured && w.m.Cursor() >= w.got, "a server is live that has not caught up")
	}
	w.must(w.m.Replays() == (w.m.Behind() && len(w.legs) > 1) && w.m.CatchesUp() == (w.m.Behind() && w.m.Recoverable()), "it is not known how the server is served")
	allowed := int64(100)
	if answered := slices.ContainsFunc(w.legs[w.sinceDeparture():], func(l leg) bool { return l.answered }); len(w.legs) > 1 && !answered {
		allowed = 200
	}
	w.must(w.m.Allowed(100, w.answered()) == allowed, "%d may be kept; want %d", w.m.Allowed(100, w.answered()), allowed)
	w.must(!w.m.Recoverable() && w.kept || w.m.Unrecoverable() == "", "it is unrecoverable because of %q", w.m.Unrecoverable())
	pending := w.m.Pending()
	w.must(pending.State != MoveRefused || pending.Why != "", "a move is refused without a reason")
	w.must(!w.connected || pending.State == MovePending, "a connection is kept for a move that is %v", pending.State)
	if at, cause := w.m.Left(); len(w.departures) > 0 {
		w.must(at == w.last().at && cause == w.last().cause, "the last departure was another one")
	}
}

// sinceDeparture returns the first leg after the last departure.
func (w *world) sinceDeparture() int {
	for i := range slices.Backward(w.legs) {
		if w.legs[i].failed != 0 {
			return i + 1
		}
	}
	return 0
}

// Each state can be reached, and each that is not final can be left.
func TestTransitions(t *testing.T) {
	reached := map[State]bool{Off: true, Live: true}
	for _, next := range transitions {
		for _, to := range next {
			reached[to] = true
		}
	}
	for s := range State(states) {
		if !reached[s] {
			t.Errorf("%v cannot be reached", s)
		}
		if len(transitions[s]) == 0 && s != Off && s != GivenUp {
			t.Errorf("%v cannot be left", s)
		}
	}
}

// docs/architecture.md draws the transitions.
func TestMachineIsDrawn(t *testing.T) {
	of := make(map[string]State)
	var names []string
	for s := Live; s < states; s++ { // no arrow leads to Off, or away
		of[s.String()] = s
		names = append(names, s.String())
	}
	wstest.CheckDiagram(t, names, func(from, to string) bool { return slices.Contains(transitions[of[from]], of[to]) })
}
