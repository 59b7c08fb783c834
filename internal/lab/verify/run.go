// Package verify tries on a real server whether what a profile claims is true: it holds sessions directly and over reused connections, leaves
// in every manner, cuts sessions and moves them, and compares letter by letter and time by time.
//
// [Run] does all of it, within a number of connections and a time. It does what the proxy does, with the proxy's own [profile.Boundary] and
// [profile.Tracker], but on plain blocking connections, so that it can tell exactly what was sent and received.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Options say what is tried, and within which bounds.
type Options struct {
	Profile *profile.Profile
	// Target is the server; its query and subprotocol are those of the profile.
	Target *handshake.Target
	// Recordings are what is said, one or more.
	Recordings []*speaker.Recording
	// Connections is how many connections are opened at most.
	Connections int
	// Wait bounds each wait for the server, once it is connected.
	Wait time.Duration
	// Watch is for how long a server is watched that should say nothing; default 500 ms.
	Watch time.Duration
	// Pace is how many times faster than real time audio is sent.
	Pace float64
	// Settings begins a session with settings that no other session may inherit, instead of the profile's; nil for those.
	Settings []string
	// Seed chooses the points at which sessions are cut.
	Seed uint64
	// Progress is told what is tried; nil for no report.
	Progress func(what string)
}

// errBudget is returned when no more connections may be opened.
var errBudget = errors.New("all connections of --sessions were used")

// errUnreachable marks an error of dialing: the server could not be tried. errGone marks one of a server that has served sessions before, and does not say
// that it is full: what the trial did may have ended it.
var (
	errUnreachable = errors.New("no connection to the server, which may be full of others' sessions")
	errGone        = errors.New("the server no longer takes connections")
)

// run is a verification under way.
type run struct {
	Options
	ctx     context.Context
	trust   *profile.Profile // with its doubts accepted
	claims  profile.Claims
	dice    *rand.Rand
	report  Report
	journal *journal
	secrets secret.Sent // that the server got, and may repeat
	open    []*link

	direct   []*outcome      // of each recording
	volatile map[string]bool // what differs between direct sessions
	widened  map[string]bool // of that, what only further direct sessions have shown
	words    words           // of direct sessions
	united   bool            // direct sessions have the same words in other results, so only the words are compared
	spoken   int             // the recording for trials that take one: the first one that the server has heard words in
	first    *speaker.Result // of the first direct session with it
	relayed  *relay          // of that session
	met      bool            // direct sessions have come to their end
	worded   bool            // one had a text, or the profile does not say where texts are
	late     []string        // what came after the last message of direct sessions
	lateLog  []string
	ended    map[string]int // what the server did after the last message of direct sessions: closes or stays
	replies  string         // what is wrong with the number of replies in direct sessions
}

// Run tries what a profile claims. The error says that the server could not be tried at all: it cannot be reached, or no session comes to
// its end. What was found until then is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := newRun(ctx, o)
	server, _, _ := strings.Cut(o.Target.Server(), "?")
	r.report = Report{Profile: o.Profile.Name, Server: server, At: time.Now().UTC().Truncate(time.Second)}
	began := time.Now()
	defer r.hang()
	err := r.sessions()
	if err == nil {
		for _, try := range []func(){r.greeting, r.ready, r.end, r.order, r.eachReplied, r.stallSign, r.answeredTimes, r.reset, r.settings, r.pace, r.move, r.busy} {
			try()
			r.hang()
		}
	}
	r.report.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &r.report, err
}

// newRun returns a run that has not begun.
func newRun(ctx context.Context, o Options) *run {
	r := &run{
		Options: o, ctx: ctx, trust: o.Profile.Trusting(), claims: o.Profile.Claims(), dice: rand.New(rand.NewPCG(o.Seed, 1)), journal: newJournal(),
		ended: make(map[string]int), volatile: make(map[string]bool), widened: make(map[string]bool), words: words{heard: make(map[heard]bool)},
	}
	if r.Watch <= 0 {
		r.Watch = 500 * time.Millisecond
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	return r
}

// claim notes what was found about a claim.
func (r *run) claim(name, says string, v Verdict, why string, evidence ...string) {
	r.report.Claims = append(r.report.Claims, Claim{name, says, v, r.secrets.Mask(why, false), evidence})
}

// verdict notes that a claim holds, or why not. err may be a bound that was reached, so that the claim could not be tried.
func (r *run) verdict(name, says, well string, err error) {
	switch {
	case err == nil:
		r.claim(name, says, Holds, well)
	case errors.Is(err, errBudget) || errors.Is(err, errUnreachable) || errors.Is(err, errReworded) || errors.Is(err, errUncut) || r.ctx.Err() != nil:
		r.claim(name, says, NotTried, err.Error())
	default:
		r.claim(name, says, Fails, err.Error(), r.journal.evidence()...)
	}
}

// begin begins a trial.
func (r *run) begin(format string, args ...any) {
	r.journal = newJournal()
	r.Progress(fmt.Sprintf(format, args...))
}

// hang ends all connections.
func (r *run) hang() {
	for _, l := range r.open {
		l.conn.Hang()
	}
	r.open = nil
}

// connectTime is the least time in which a server must be reached, also where it must answer sooner: this machine, or what is between, may be busy.
const connectTime = 10 * time.Second

// dial opens a connection.
func (r *run) dial(direct bool) (*link, error) {
	if r.report.Connections >= r.Connections {
		return nil, errBudget
	}
	r.report.Connections++
	ctx, cancel := context.WithTimeout(r.ctx, max(r.Wait, connectTime))
	defer cancel()
	established, err := r.Target.Dial(ctx)
	r.report.addresses.dialed(r.Target, established.Conn, err)
	if err != nil {
		r.journal.note("connecting: %v", err)
		why := errUnreachable
		if _, full := speaker.Refused(r.Profile, err); r.met && !full {
			why = errGone
		}
		return nil, fmt.Errorf("%w: %w", why, err)
	}
	r.report.Version, r.secrets = established.Server, established.Sent
	l := &link{conn: speaker.NewConn(established, r.Wait), boundary: profile.New(r.trust), journal: r.journal, direct: direct}
	context.AfterFunc(r.ctx, l.conn.Abort)
	r.open = append(r.open, l)
	if !direct {
		if err := l.greet(time.Now().Add(r.Wait)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// pooled opens a connection for several sessions.
func (r *run) pooled() (*link, error) { return r.dial(false) }

// pause is how long a server gets to see that a connection has ended, and to let another session have its place.
const pause = 300 * time.Millisecond

// another opens a connection for a session that moves, and dials again while the server is full: the place of the connection that was cut may not be
// free yet.
func (r *run) another() (*link, error) {
	for until := time.Now().Add(min(r.Wait, 5*time.Second)); ; {
		l, err := r.pooled()
		full, _ := speaker.Refused(r.Profile, err)
		if err == nil || !full && !errors.Is(err, errFullLink) || time.Now().After(until) {
			return l, err
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
	}
}

// held is a session that was held.
type held struct {
	*outcome
	result *speaker.Result
	relay  *relay
}

// holdDirect holds a session with a recording on a new connection, as a client does without the proxy.
func (r *run) holdDirect(recording *speaker.Recording, o speaker.Options) (*held, error) {
	l, err := r.dial(true)
	if err != nil {
		return nil, err
	}
	return r.hold(l, recording, o, 0)
}

// hold holds a session with a recording on a connection. cut is after how many messages of audio it moves to another; 0 for never.
func (r *run) hold(l *link, recording *speaker.Recording, o speaker.Options, cut int) (*held, error) {
	l.journal = r.journal
	if o.Pace == 0 {
		o.Pace = r.Pace
	}
	o.Token, o.Ready, o.Last = r.dice.Uint64(), r.Wait, r.Wait
	line := newRelay(r.trust, l)
	line.cut, line.other = cut, r.another
	result, err := recording.Speak(r.ctx, line, o)
	err = l.conn.Masked(err)
	line.link.heard += line.tracker.Heard()
	if err == nil && !result.Complete && o.Cut == 0 && !o.Impatient {
		err = errors.New("the session did not come to its end")
	}
	got := new(outcome)
	token := fmt.Sprintf("%016x", o.Token)
	for _, m := range recording.Finals(line.finals, result.Received) {
		m = l.masked(m) // before anything is cut, since a part of a secret is not found
		m.Payload = []byte(strings.ReplaceAll(string(m.Payload), token, "$token"))
		got.finals = append(got.finals, leavesOf(m))
		got.texts = append(got.texts, strings.Join(recording.Texts(m), " "))
	}
	if r.united {
		got.unite()
	}
	return &held{got, result, line}, err
}

// unite lets only the words of outcomes be compared from now on.
func (r *run) unite(also ...*outcome) {
	r.united = true
	for _, o := range append(also, r.direct...) {
		o.unite()
	}
}

// controls is how many direct sessions show at most whether a difference comes from the server itself, such as from dither.
const controls = 5

// explain holds further direct sessions with a recording when an outcome differs from the first of them, to see what differs between direct
// sessions, too. It returns how the outcome differs apart from that; empty if it does not.
func (r *run) explain(got *outcome, i int) string {
	text := r.compare(got, r.direct[i], i)
	for n := 0; n < controls && text != "" && r.report.Connections < r.Connections; n++ {
		control, err := r.holdDirect(r.Recordings[i], speaker.Options{})
		if err != nil {
			break
		}
		r.hear(control.outcome, i)
		if r.compare(got, control.outcome, i) == "" {
			return ""
		}
		if dividedOtherwise(r.direct[i], control.outcome) {
			r.unite(got, control.outcome)
		}
		paths, _ := differences(r.direct[i], control.outcome)
		for path := range paths {
			if !r.volatile[path] {
				r.volatile[path], r.widened[path] = true, true
			}
		}
		text = r.compare(got, r.direct[i], i)
	}
	return text
}

// compare says how an outcome with a recording differs from that of a direct session, also by words of another recording where words are not compared.
func (r *run) compare(got, want *outcome, i int) string {
	if text := compare(got, want, r.volatile, r.Profile.Failover()); text != "" {
		return text
	}
	if word := r.foreign(got, i); word != "" {
		return fmt.Sprintf("the results have the word %.100q, which direct sessions have only with another recording", word)
	}
	return ""
}

// notCompared names what is not compared since further direct sessions differ in it; empty for nothing.
func (r *run) notCompared() string {
	if len(r.widened) == 0 {
		return ""
	}
	return "; not compared, since further direct sessions differ in it: " + strings.Join(slices.Sorted(maps.Keys(r.widened)), ", ")
}

// sessions holds direct sessions, twice with each recording, which all others are compared with.
func (r *run) sessions() error {
	const says = "a session begins, is answered and ends as the profile's client says"
	for i, recording := range r.Recordings {
		for again := range 2 {
			r.begin("direct session %d of %d", 2*i+again+1, 2*len(r.Recordings))
			got, err := r.holdDirect(recording, speaker.Options{})
			if err != nil {
				r.verdict("session", says, "", err)
				return fmt.Errorf("a direct session failed: %w", err)
			}
			r.after(got.relay.link, got.result)
			r.worded = r.worded || got.result.Heard
			r.countReplies(got.result)
			if again == 0 {
				r.direct = append(r.direct, got.outcome)
			}
			r.hear(got.outcome, i)
			if dividedOtherwise(r.direct[i], got.outcome) {
				r.unite()
			} else if paths, more := differences(r.direct[i], got.outcome); more {
				r.claim("session", says, Fails, fmt.Sprintf("two direct sessions with the same recording have %d and %d final results: nothing can be compared",
					len(r.direct[i].finals), len(got.finals)), r.journal.evidence()...)
				return errors.New("the server's results are not the same each time")
			} else {
				maps.Copy(r.volatile, paths)
			}
			if r.first == nil || r.direct[r.spoken].words() == "" && got.words() != "" {
				r.spoken, r.first, r.relayed = i, got.result, got.relay
			}
			r.hang()
		}
	}
	why := fmt.Sprintf("%d direct sessions; the first with a result had it after %v, and %s", 2*len(r.Recordings), r.first.First.Round(time.Millisecond), figures.Plural(len(r.direct[r.spoken].finals), "final result"))
	if r.united {
		why += "; only the words are compared, since they are in other results each time"
	} else if len(r.volatile) > 0 {
		why += "; not compared, since it differs each time: " + strings.Join(slices.Sorted(maps.Keys(r.volatile)), ", ")
	}
	if nothing := r.nothingHeard(); nothing != nil {
		r.claim("session", says, NotTried, nothing.Error(), r.journal.evidence()...)
		return nothing
	}
	r.met = true
	r.claim("session", says, Holds, why)
	return nil
}

// What a server may do after the last message of a session.
const (
	closes = "closed the connection"
	stays  = "left the connection open"
)

// after watches what the server does after the last message of a direct session.
func (r *run) after(l *link, result *speaker.Result) {
	if result.Closed != nil {
		r.ended[closes]++
		return
	}
	wait := r.Watch
	if r.Profile.EndCloses {
		wait = min(5*time.Second, r.Wait)
	}
	for until := time.Now().Add(wait); ; {
		m, err := l.Receive(until)
		switch {
		case errors.Is(err, speaker.ErrTimeout):
			r.ended[stays]++
			return
		case err != nil:
			r.ended[closes]++
			return
		}
		r.late = append(r.late, excerpt(l.masked(m)))
		r.lateLog = r.journal.evidence()
	}
}

// countReplies compares the number of replies with that of messages.
func (r *run) countReplies(result *speaker.Result) {
	if r.Profile.Declared != profile.Lockstep {
		return
	}
	got := 0
	for _, m := range result.Received {
		if m.Audio > 0 {
			got++
		}
	}
	want := result.Audio + len(r.Profile.Script().End)
	if got != want && r.replies == "" {
		r.replies = fmt.Sprintf("%d replies to %d messages", got, want)
	}
}

// greeting tries what the server says before its client has said anything.
func (r *run) greeting() {
	if !r.claims.Greeting && r.Profile.Declared == profile.OneShot {
		return // what it says goes to the client that gets the connection
	}
	says, limit := "the server says nothing before its client", r.Watch
	if r.claims.Greeting {
		says, limit = "the server greets", r.Wait
	}
	r.begin("greeting")
	l, err := r.dial(true)
	if err != nil {
		r.verdict("greeting", says, "", err)
		return
	}
	began := time.Now()
	m, err := l.Receive(began.Add(limit))
	for err == nil && r.claims.Greeting && !r.Profile.SaysGreeting(m.Opcode, m.Payload) {
		m, err = l.Receive(began.Add(limit))
	}
	switch took := time.Since(began).Round(time.Millisecond); {
	case r.claims.Greeting && errors.Is(err, speaker.ErrTimeout):
		err = fmt.Errorf("no message that the profile takes for the greeting came within %v", limit)
	case r.claims.Greeting:
		r.verdict("greeting", says, fmt.Sprintf("it came after %v", took), err)
		return
	case errors.Is(err, speaker.ErrTimeout):
		r.verdict("greeting", says, fmt.Sprintf("nothing came for %v", limit), nil)
		return
	case err == nil:
		err = errors.New("it said something")
	}
	r.verdict("greeting", says, "", err)
}

// ready tries whether the server says when it is ready.
func (r *run) ready() {
	if !r.claims.Ready {
		return
	}
	const says = "the server says when it is ready for more than the first message"
	for _, m := range r.first.Received {
		if m.Audio == 0 && r.Profile.SaysReady(m.Opcode, m.Payload) {
			r.claim("ready", says, Holds, fmt.Sprintf("it did after %v", m.At.Round(time.Millisecond)))
			return
		}
	}
	r.claim("ready", says, Fails, "no message before the audio is the one that the profile describes")
}

// end tries what the server does after the last message.
func (r *run) end() {
	if !r.claims.End {
		return
	}
	says, other := "after a client's end, the connection stays open", closes
	if r.Profile.EndCloses {
		says, other = "after a client's end, the server closes the connection", stays
	}
	if n := r.ended[other]; n > 0 {
		r.claim("end", says, Fails, fmt.Sprintf("after %d of %d direct sessions, the server %s", n, 2*len(r.Recordings), other))
		return
	}
	r.claim("end", says, Holds, "it does")
}

// order tries whether anything follows the last message.
func (r *run) order() {
	if r.Profile.Declared == profile.OneShot || r.Profile.EndCloses || !r.Profile.Script().HasLast() {
		return
	}
	const says = "nothing follows the last message of a session"
	switch {
	case len(r.late) == 0:
		r.claim("order", says, Holds, fmt.Sprintf("nothing came for %v after it", r.Watch))
	case r.Profile.Declared == profile.Quiet:
		r.claim("order", says, Holds, fmt.Sprintf("messages did, which the profile allows for %v: %.100s", r.claims.Settle, r.late[0]))
	case r.Profile.Declared == profile.Tagged:
		r.claim("order", says, Holds, fmt.Sprintf("a message did, with the id of the task that was over, so that no other session gets it: %.100s", r.late[0]))
	default:
		r.claim("order", says, Fails, fmt.Sprintf("%d messages did, such as %.100s", len(r.late), r.late[0]), r.lateLog...)
	}
}

// eachReplied tries whether each message gets one reply.
func (r *run) eachReplied() {
	if r.Profile.Declared != profile.Lockstep {
		return
	}
	const says = "each message of a client gets exactly one reply"
	if r.replies != "" {
		r.claim("replies", says, Fails, r.replies)
		return
	}
	r.claim("replies", says, Holds, fmt.Sprintf("%d messages of audio did", r.first.Audio))
}

// stallSign tries whether messages show that the server works.
func (r *run) stallSign() {
	sign := r.Profile.Failover().Stall
	if sign == profile.StallNone {
		return
	}
	says := fmt.Sprintf("a stall shows (%v)", sign)
	longest, last := time.Duration(0), r.first.Spoke
	over := r.first.Over
	if sign == profile.StallAsked {
		last, over = over, max(over, slices.Max(append(r.relayed.signs, 0)))
	}
	for _, at := range r.relayed.signs {
		if at > over {
			break
		}
		longest, last = max(longest, at-last), at
	}
	if len(r.relayed.signs) == 0 {
		r.claim("stall", says, Fails, "no message of a session showed that the server works")
		return
	}
	longest = max(longest, over-last)
	r.claim("stall", says, Holds, fmt.Sprintf("%d messages showed that the server works; the longest time without one, with audio at %g times real time, was %v",
		len(r.relayed.signs), r.Pace, longest.Round(time.Millisecond)))
}

// answeredTimes tries up to where results answer audio.
func (r *run) answeredTimes() {
	if r.Profile.Failover().Verdict == profile.Never {
		return
	}
	const says = "final results tell up to where they answer the audio"
	t := r.relayed.tracker
	answered, sent := t.Duration(int64(t.Answered())), t.Duration(int64(t.Delivered()))
	switch {
	case t.Whole() != "":
		r.claim("answered", says, NotTried, t.Whole())
	case r.relayed.problem != "":
		r.claim("answered", says, Fails, r.relayed.problem)
	case len(r.relayed.finals) == 0:
		r.claim("answered", says, NotTried, "no result was one that the profile takes for final")
	case t.Answered() == 0 && r.Profile.Failover().ByUtterance():
		r.claim("answered", says, NotTried, fmt.Sprintf("the recording of %v is too short for the margin of answered: use longer ones", sent.Round(time.Millisecond)))
	case t.Answered() == 0:
		r.claim("answered", says, Fails, fmt.Sprintf("%d final results answered nothing", len(r.relayed.finals)))
	default:
		r.claim("answered", says, Holds, fmt.Sprintf("in the end, %v of %v were answered", answered.Round(time.Millisecond), sent.Round(time.Millisecond)))
	}
}

// Verdict is whether a claim of the profile is true.
type Verdict string

// The verdicts.
const (
	Holds    Verdict = "holds"
	Fails    Verdict = "does not hold"
	NotTried Verdict = "not tried"
)

// Claim is something that a profile says about its servers, and what was found.
type Claim struct {
	Name    string  `json:"name"`
	Says    string  `json:"says"` // what the profile says
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Evidence is what was sent and received, if the claim does not hold.
	Evidence []string `json:"evidence,omitempty"`
}

// Report is what was found about a profile on a server.
type Report struct {
	Profile     string    `json:"profile"`
	Server      string    `json:"server"`            // its URL, without what may be secret
	Version     string    `json:"version,omitempty"` // as the server says itself in its handshake
	At          time.Time `json:"at"`
	Connections int       `json:"connections"` // how many were used
	Seconds     float64   `json:"seconds"`
	Claims      []Claim   `json:"claims"`

	addresses addresses // which are not for everybody
}

// Holds reports whether no claim was found not to hold, and at least one to hold.
func (r *Report) Holds() bool {
	some := false
	for _, c := range r.Claims {
		if c.Verdict == Fails {
			return false
		}
		some = some || c.Verdict == Holds
	}
	return some
}
