package relay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// TestLife lets client, server, pool, timers and operator do at random what they can do to a session, with sides that are
// plain data. What must always hold is checked after each step, and at the end every session must go.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, oneShot: rapid.Bool().Draw(t, "one-shot"), recoverable: rapid.Bool().Draw(t, "recoverable"), leased: true, leases: 1}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			rapid.SampledFrom(steps).Draw(t, "step").does(w)
			w.check()
		}
		w.finish()
	})
}

// step is something that one of the sides does. It does nothing when it cannot happen at that time.
type step struct {
	name string
	does func(*world)
}

func (s step) String() string { return s.name }

var steps = []step{
	{"client closes", (*world).clientCloses},
	{"client breaks the protocol", (*world).clientBreaks},
	{"client vanishes", (*world).clientVanishes},
	{"backend begins a frame", (*world).frameBegins},
	{"backend ends a frame", (*world).frameEnds},
	{"backend closes", (*world).backendCloses},
	{"backend vanishes", (*world).backendVanishes},
	{"backend cannot serve the session, another may", (*world).backendFull},
	{"backend cannot serve the session", (*world).backendUnfit},
	{"backend sends an unsolicited answer", (*world).backendUnsolicited},
	{"client sends its last message", (*world).lastMessage},
	{"backend sends its last answer", (*world).lastAnswer},
	{"pool finds a connection", (*world).connectionFound},
	{"pool finds none", (*world).noConnection},
	{"timer expires", (*world).timerExpires},
	{"operator ends the session", (*world).proxyEnds},
	{"the process ends", (*world).processEnds},
	{"server fails, another may continue", (*world).interrupts},
	{"panic", (*world).panics},
}

// world is the sides of a session as data.
type world struct {
	t           *rapid.T
	life        life
	oneShot     bool
	recoverable bool // what the client sends is kept, and it gets whole messages only

	clientDone  bool // the client has sent its last frame
	clientEnded bool // its stream has ended
	midFrame    bool // a frame on its way to the client is incomplete
	closeQueued bool // a close frame waits behind that
	toldCode    frame.CloseCode
	closes      int  // close frames that the client got
	bounded     bool // the close timeout bounds a state that has other bounds otherwise
	short       bool // that of a process which ends does
	shutdown    bool // the process ends
	cut         bool

	leased    bool
	leases    int
	leaseEnds int
	searching bool

	recorded  bool
	by        party
	code      frame.CloseCode
	forgotten bool
}

func (w *world) clientCloses() {
	if w.clientDone || w.clientEnded || w.readsNot() {
		return
	}
	w.clientDone = true
	w.happens(event{kind: clientClosed, by: byClient, code: frame.NormalClosure, owed: w.leased && w.oneShot})
}

func (w *world) clientBreaks() {
	if w.clientDone || w.clientEnded || w.readsNot() {
		return
	}
	w.clientDone = true
	w.happens(event{kind: clientBroke, by: byClient, code: frame.ProtocolError, owed: w.life.state == relaying && rapid.Bool().Draw(w.t, "owed")})
}

func (w *world) clientVanishes() {
	if w.clientEnded || w.forgotten {
		return
	}
	w.clientEnded = true
	w.happens(event{kind: clientLost, by: byClient, code: frame.AbnormalClosure})
}

// interrupts is a server that fails, stalls or is to be left.
func (w *world) interrupts() {
	if !w.recoverable || w.life.state != relaying && w.life.state != completing || w.clientEnded {
		return
	}
	w.happens(event{kind: interrupted, by: byBackend, code: frame.InternalError, fault: rapid.Bool().Draw(w.t, "fault")})
}

// readsNot reports whether the client is not read.
func (w *world) readsNot() bool { return rulesOf[w.life.state].client == whileKept && !w.recoverable }

func (w *world) frameBegins() {
	if !w.leased || w.midFrame || w.recoverable {
		return
	}
	w.midFrame = true
}

func (w *world) frameEnds() {
	if !w.leased || !w.midFrame {
		return
	}
	w.midFrame = false
	if w.closeQueued {
		w.closeQueued = false
		w.clientGetsClose()
		w.happens(event{kind: closeSent})
	}
}

func (w *world) backendCloses() {
	if !w.leased || w.midFrame {
		return
	}
	w.happens(event{kind: backendClosed, by: byBackend, code: frame.GoingAway})
}

func (w *world) backendVanishes() {
	if !w.leased {
		return
	}
	w.cut = w.midFrame
	w.happens(event{kind: backendLost, by: byBackend, code: frame.InternalError, fault: rapid.Bool().Draw(w.t, "fault")})
}

func (w *world) backendFull() {
	if !w.leased || w.midFrame {
		return
	}
	w.happens(event{kind: notServed, by: byBackend, code: frame.InternalError, full: rapid.Bool().Draw(w.t, "full")})
}

func (w *world) backendUnfit() {
	if !w.leased {
		return
	}
	w.happens(event{kind: unfit, by: byBackend, code: frame.InternalError, fault: true})
}

func (w *world) backendUnsolicited() {
	if !w.leased {
		return
	}
	w.cut = w.midFrame
	w.happens(event{kind: unsolicited, by: byBackend, code: frame.InternalError, fault: true})
}

func (w *world) lastMessage() {
	if w.life.state != relaying || w.oneShot || w.clientEnded {
		return
	}
	w.happens(event{kind: replaced, by: byClient, code: frame.NormalClosure})
}

func (w *world) lastAnswer() {
	if !w.leased || w.life.state == relaying {
		return
	}
	w.happens(event{kind: answered})
}

func (w *world) connectionFound() {
	if !w.searching {
		return
	}
	w.happens(event{kind: found})
}

func (w *world) noConnection() {
	if !w.searching {
		return
	}
	w.happens(event{kind: notFound, by: byProxy, code: frame.TryAgainLater})
}

func (w *world) timerExpires() {
	if !w.isBounded() {
		return
	}
	w.cut = w.midFrame
	w.happens(event{kind: expired})
}

func (w *world) isBounded() bool {
	return rulesOf[w.life.state].bounded || w.bounded && w.life.state == completing
}

func (w *world) proxyEnds() {
	if w.forgotten {
		return
	}
	w.happens(event{kind: stopped, by: byProxy, code: frame.PolicyViolation})
}

func (w *world) processEnds() {
	if w.forgotten {
		return
	}
	w.shutdown = true
	w.happens(event{kind: stopped, by: byProxy, class: meter.Shutdown, code: frame.GoingAway})
}

// panics retires the session, as [Session.retire] does.
func (w *world) panics() {
	if w.forgotten || rapid.IntRange(0, 9).Draw(w.t, "panic") > 0 {
		return
	}
	w.cut = true
	w.life.retire()
	w.searching = false
	if w.leased {
		w.leased = false
		w.leaseEnds++
	}
	w.recorded, w.by, w.code = true, byProxy, frame.InternalError
	if w.closes > 0 {
		w.code = w.toldCode
	}
	w.forgotten = true
}

// happens tells the session's life of an event, and does what it says.
func (w *world) happens(e event) {
	w.t.Helper()
	e.midFrame, e.clientEnded = w.midFrame, w.clientEnded
	before := w.life.state
	do := w.life.handle(&e, nil)
	if w.life.state != before {
		w.short = w.life.hurried
	}
	for _, a := range do {
		w.perform(a, &e)
	}
}

func (w *world) perform(a action, e *event) {
	switch a {
	case recordEnd:
		if w.recorded && (w.by != byClient || e.by != byBackend || w.closes > 0) {
			w.t.Fatalf("the end by %v with %v is recorded again: by %v with %v", w.by, w.code, e.by, e.code)
		}
		w.recorded, w.by, w.code = true, e.by, e.code
	case undoEnd:
		w.must(w.recorded && w.closes == 0 && !w.clientDone && !w.clientEnded, "the end of a session is taken back that has ended")
		w.recorded = false
	case bound:
		w.bounded, w.short = true, w.life.hurried
	case relayClose, sendReset:
		w.must(w.leased, "the backend of a session without a lease is sent something")
	case queueClose:
		w.must(w.midFrame && w.recorded, "a close frame is queued behind nothing")
		w.closeQueued = true
	case sendClose:
		w.must(!w.midFrame || !w.leased, "a close frame is sent in the middle of a frame")
		w.clientGetsClose()
	case startSearch:
		w.mayServe()
		w.must(!w.leased && !w.searching, "a session that has a lease, or looks for one, looks for another")
		w.searching = true
	case stopSearch:
		w.searching = false
	case startLeg:
		w.mayServe()
		w.must(!w.leased && w.searching, "a lease begins that was not searched for")
		w.leased, w.searching = true, false
		w.leases++
	case leaveBackend, endLease:
		w.must(w.leased, "a lease ends that is over")
		w.leased, w.closeQueued = false, false
		if a == leaveBackend {
			w.midFrame = false
		}
		w.leaseEnds++
	case endStream:
		w.must(!w.leased, "the client's stream is ended while the server may speak to it")
	case forget:
		w.must(!w.forgotten && !w.searching, "a session is forgotten twice, or while it looks for a connection")
		w.forgotten = true
	}
}

func (w *world) clientGetsClose() {
	w.must(w.recorded, "a close frame is sent before it is known who ends the session")
	w.closes++
	w.toldCode = w.code
}

// mayServe fails for a client that is no longer there, or has ended its session.
func (w *world) mayServe() {
	w.must(!w.clientDone && !w.clientEnded && !w.recorded, "a session is revived that its client has ended")
}

func (w *world) must(holds bool, otherwise string) {
	if !holds {
		w.t.Fatalf("%s (%v)", otherwise, w.life.state)
	}
}

// check checks what must always hold.
func (w *world) check() {
	state, rules := w.life.state, rulesOf[w.life.state]
	w.must(rules.leased == w.leased, fmt.Sprintf("leased is %v", w.leased))
	w.must((state == moving) == w.searching, fmt.Sprintf("searching is %v", w.searching))
	w.must((state == gone) == w.forgotten, fmt.Sprintf("forgotten is %v", w.forgotten))
	w.must(w.leases == w.leaseEnds || w.leased && w.leases == w.leaseEnds+1, "leases and their ends do not balance")
	w.must(w.closes <= 1, "the client gets two close frames")
	w.must((state == relaying || state == moving) != w.recorded, "it is not recorded who ended the session, or too early")
	w.must(!w.clientEnded || state != lingering, "a client is awaited that has gone")
	w.must(!w.clientDone || state == gone || w.isBounded(), "nothing bounds the session of a client that has closed")
	w.must(!w.shutdown || !w.isBounded() || w.short, "a session may last longer than the process")
	if state == gone {
		w.must(w.closes == 1 || w.clientEnded || w.cut, "the client was not told who ended the session")
		w.must(w.closes == 0 || w.toldCode == w.code, "the client was told another code than is recorded")
	}
}

// finish lets the time pass that every state is bounded by.
func (w *world) finish() {
	for range 6 {
		switch state := w.life.state; {
		case state == gone:
			w.check()
			return
		case w.isBounded():
			w.cut = w.cut || w.midFrame
			w.happens(event{kind: expired})
		case state == moving:
			w.happens(event{kind: notFound, by: byProxy, code: frame.TryAgainLater})
		case state == completing: // the boundary's time
			w.happens(event{kind: unfit, by: byBackend, code: frame.InternalError, fault: true})
		case state == relaying: // may last
			w.happens(event{kind: stopped, by: byProxy, code: frame.GoingAway})
		}
		w.check()
	}
	w.t.Fatalf("the session is %v for ever", w.life.state)
}

// Each state but the last can be left, and each but the first can be reached.
func TestTransitions(t *testing.T) {
	reached := map[state]bool{relaying: true}
	for from, next := range transitions {
		if len(next) == 0 && state(from) != gone {
			t.Errorf("%v cannot be left", state(from))
		}
		for _, to := range next {
			reached[to] = true
			if rulesOf[from].leased && rulesOf[to].leased && slices.Contains(transitions[to], state(from)) {
				t.Errorf("%v and %v lead to each other with the same lease", state(from), to)
			}
		}
	}
	for s := range state(states) {
		if !reached[s] {
			t.Errorf("%v cannot be reached", s)
		}
	}
}

// docs/architecture.md draws the transitions.
func TestLifeIsDrawn(t *testing.T) {
	of := make(map[string]state)
	var names []string
	for s := range state(states) {
		of[s.String()] = s
		names = append(names, s.String())
	}
	wstest.CheckDiagram(t, names, func(from, to string) bool { return slices.Contains(transitions[of[from]], of[to]) })
}

// A session tries maxTries connections that are not full.
func TestTries(t *testing.T) {
	l := life{state: relaying}
	tried := 1
	for l.handle(&event{kind: notServed}, nil); l.state == moving && tried <= 2*maxTries; tried++ {
		l.handle(&event{kind: found}, nil)
		l.handle(&event{kind: notServed}, nil)
	}
	if tried != maxTries {
		t.Errorf("it tries %d connections", tried)
	}
}
