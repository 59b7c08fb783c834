package verify

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// unlimitedPace is tried where a profile has no limit.
const unlimitedPace = 10

// pace tries whether the server keeps up with a replay.
func (r *run) pace() {
	f := r.Profile.Failover()
	if f.Verdict == profile.Never {
		return
	}
	pace, says := f.Pace, fmt.Sprintf("audio may come at %g times real time", f.Pace)
	if pace == 0 {
		pace, says = max(unlimitedPace, r.Pace), "audio may come as fast as the network carries it"
	}
	r.begin("pace")
	i := r.spoken
	got, err := r.holdDirect(r.Recordings[i], speaker.Options{Pace: pace})
	switch {
	case err != nil:
	case r.direct[i].words() == "": // the profile does not say where words are, or the server speaks
		err = r.differs(got.outcome, i)
	case strings.Join(got.texts, " ") != strings.Join(r.direct[i].texts, " "):
		r.explain(got.outcome, i) // do direct sessions have other words each time, too?
		switch known := r.words.differ && r.foreign(got.outcome, i) == ""; {
		case known && r.compared(got.outcome, i):
		case known:
			err = errReworded
		default:
			err = fmt.Errorf("the results were %.200q at %g times real time, and %.200q at %g", got.texts, pace, r.direct[i].texts, r.Pace)
		}
	}
	r.verdict("pace", says, fmt.Sprintf("the results were the same at %g times real time", pace), err)
}

// cutsPerRecording is how often each recording is cut.
const cutsPerRecording = 2

// errUncut is returned for a session that could not be cut within its audio.
var errUncut = errors.New("a recording of a single message of audio cannot be cut: use longer ones")

// move tries whether a session that is cut and moves has the results of one that does not.
func (r *run) move() {
	f := r.Profile.Failover()
	if f.Verdict == profile.Never {
		return
	}
	says := "a session that moves to another connection has every final result once, with the right times"
	if f.Verdict == profile.Visible {
		says = "a session that moves to another connection continues: " + f.Why
	}
	if why := r.relayed.tracker.Whole(); why != "" {
		r.claim("move", says, NotTried, why)
		return
	}
	same, alike, tried, untold, uncut := 0, "", 0, error(nil), error(nil)
	for i, recording := range r.Recordings {
		for range cutsPerRecording {
			cut := 1 + r.dice.IntN(max(1, recording.Chunks()-1))
			r.begin("move: cut after %d messages of audio", cut)
			how, err := r.moveOnce(i, cut)
			switch {
			case errors.Is(err, errUncut):
				uncut = err
				r.hang()
				continue
			case errors.Is(err, errReworded):
				untold = err
			case err != nil:
				r.verdict("move", says, "", fmt.Errorf("cut after %d of %d messages of audio: %w", cut, recording.Chunks(), err))
				return
			}
			tried++
			if how == "" {
				same++
			} else {
				alike = how
			}
			r.hang()
		}
	}
	if tried == 0 {
		untold = uncut
	}
	well := fmt.Sprintf("%d of %d sessions that moved had the same results and times", same, tried)
	if alike != "" {
		well += "; others: " + alike
	}
	r.verdict("move", says, well+r.notCompared(), untold)
}

// moveOnce holds a session that moves. how says how its results differ, if they may; it is empty if they do not. The error is errReworded if nothing can be
// said about them, and errUncut if it has ended where it was.
func (r *run) moveOnce(i, cut int) (how string, err error) {
	recording, want := r.Recordings[i], r.direct[i]
	l, err := r.pooled()
	if err != nil {
		return "", err
	}
	got, err := r.hold(l, recording, speaker.Options{}, cut)
	if err != nil {
		return "", err
	}
	if got.relay.problem != "" {
		return "", errors.New(got.relay.problem)
	}
	if !got.relay.moved {
		return "", errUncut
	}
	text := r.explain(got.outcome, i)
	switch {
	case r.Profile.Failover().Verdict == profile.Visible:
		if want.words() != "" && got.words() == "" {
			return "", errors.New("it had no results any more: " + text)
		}
		if word := r.foreign(got.outcome, i); word != "" {
			return "", fmt.Errorf("it had %q, which direct sessions have with another recording only", word)
		}
		return text, nil
	case text == "" && !r.compared(got.outcome, i):
		return "", errReworded
	case text == "":
		return "", nil
	}
	if slices.Equal(got.texts, want.texts) {
		if off := r.farthest(got.outcome, want); off != "" {
			return "", errors.New(off)
		}
		return fmt.Sprintf("the same words, and times right within %v", r.Profile.Script().Chunk), nil
	}
	if dividedOtherwise(got.outcome, want) { // the second server gets in a moment what the first one got in seconds
		return "the same words in other results", nil
	}
	// A recogniser that begins in the middle may hear other words. Then they must be those of a direct session that begins there.
	rest := recording.After(int64(got.relay.from))
	if rest == nil {
		return "", errors.New(text)
	}
	r.hang()
	alone, err := r.holdDirect(rest, speaker.Options{})
	if err != nil {
		return "", err
	}
	if n := len(got.texts) - len(alone.texts); n >= 0 && n <= len(want.texts) && slices.Equal(got.texts[n:], alone.texts) && slices.Equal(got.texts[:n], want.texts[:n]) {
		return "the words of a direct session that begins where the second server began", nil
	}
	if r.words.differ && r.foreign(got.outcome, i) == "" {
		return "", errReworded
	}
	return "", fmt.Errorf("%s; a direct session that begins where the second server began has %.200q", text, alone.texts)
}

// farthest says which number differs by more than a message of audio from what it should be; empty for none.
func (r *run) farthest(got, want *outcome) string {
	chunk, length := r.Profile.Script().Chunk, r.Recordings[0].Length()
	for _, recording := range r.Recordings {
		length = max(length, recording.Length())
	}
	for i := range want.finals {
		for path, text := range want.finals[i] {
			other := got.finals[i][path]
			if r.volatile[general(path)] || text == other {
				continue
			}
			a, errA := strconv.ParseFloat(text, 64)
			b, errB := strconv.ParseFloat(other, 64)
			allowed := chunk.Seconds()
			if max(a, b) > 10*length.Seconds() { // milliseconds
				allowed *= float64(time.Second / time.Millisecond)
			}
			if errA != nil || errB != nil || a-b > allowed || b-a > allowed {
				return fmt.Sprintf("final result %d has %s %.100q; a direct session has %.100q", i+1, name(path), other, text)
			}
		}
	}
	return ""
}

// busy tries whether a server that is full can be told. It looks again when the server refuses, since the places of connections that have ended may not
// be free yet.
func (r *run) busy() {
	if !r.claims.Busy {
		return
	}
	const says = "a full server says so as the profile describes"
	r.begin("busy")
	var open []*link
	for again := pause; r.report.Connections < r.Connections && len(open) < mostAtOnce && r.ctx.Err() == nil; {
		l, err := r.dial(true)
		if err == nil {
			err = r.occupy(l)
		}
		if err == nil {
			open = append(r.served(open), l)
			continue
		}
		full := errors.Is(err, errFull)
		refused, known := speaker.Refused(r.Profile, err)
		if full {
			l.conn.Hang()
		}
		if (full || refused) && again <= min(r.Wait, longestPause) && r.report.Connections+1 < r.Connections {
			tasks.Sleep(r.ctx, again)
			again *= 2
			continue
		}
		opened := len(r.served(open))
		switch {
		case full:
			r.verdict("busy", says, fmt.Sprintf("with %d sessions open, the server refused another: %v; it can move to another server", opened, err), r.refusedInTime())
		case known:
			r.claim("busy", says, Holds, fmt.Sprintf("with %d sessions open, the server refused another: %v", opened, err))
		case errors.Is(err, errGone) && opened > 0: // it serves others, and may be full without saying so
			r.claim("busy", says, NotTried, fmt.Sprintf("with %d sessions open, %v", opened, err))
		case refused && opened > 0:
			r.verdict("busy", says, "", fmt.Errorf("with %d sessions open, the server refused another in a way that the profile does not describe: %w", opened, err))
		default:
			r.verdict("busy", says, "", err)
		}
		return
	}
	r.claim("busy", says, NotTried, fmt.Sprintf("the server served %d sessions at once, and was not full", len(open)))
}

// longestPause is the longest time until a server that has refused a session is asked again, where a pause is twice as long as the one before.
const longestPause = 4 * pause

// sentToFull is how many messages of audio a client sends to a full server, as one that streams does before it hears of it.
const sentToFull = 3

// refusedInTime begins a session on the full server as the proxy would. It returns an error if the session could not go to another server, so
// that its client would be lost.
func (r *run) refusedInTime() error {
	l, err := r.pooled()
	if err != nil {
		if errors.Is(err, errBudget) {
			return err
		}
		return nil // before the session: another connection is dialed
	}
	defer l.conn.Hang()
	l.begin()
	_, err = r.Recordings[0].Speak(r.ctx, l, speaker.Options{Token: r.dice.Uint64(), Ready: r.Wait, Cut: sentToFull, Pace: 1})
	for until := time.Now().Add(r.Wait); err == nil; {
		_, err = l.Receive(until)
	}
	switch {
	case errors.Is(err, errElsewhere):
		return nil
	case errors.Is(err, speaker.ErrTimeout):
		return nil // a place has come free meanwhile
	}
	return fmt.Errorf("its client is lost, since the server says so after more than the client's first message: set ready, or timeouts.busy: %w", l.conn.Masked(err))
}

// mostAtOnce is how many sessions are held at once at most, to see a full server.
const mostAtOnce = 8

// errFull tells that the server has said that it is full.
var errFull = errors.New("the server said that it is full")

// occupy begins a session, and leaves it open.
func (r *run) occupy(l *link) error {
	recording := r.Recordings[0]
	result, err := recording.Speak(r.ctx, l, speaker.Options{Token: r.dice.Uint64(), Ready: r.Wait, Cut: 1})
	if result.SaysFull(r.Profile) {
		return errFull
	}
	if err != nil {
		return l.conn.Masked(err)
	}
	return r.refusal(l, min(max(leastSettle, 2*r.first.First), mostSettle))
}

// How long a server may take to refuse a session that has begun: twice as long as it took for the first result, within these bounds.
const (
	leastSettle = 100 * time.Millisecond
	mostSettle  = time.Second
)

// refusal returns an error if a server refuses or ends an open session within a while.
func (r *run) refusal(l *link, within time.Duration) error {
	for until := time.Now().Add(within); ; {
		m, err := l.Receive(until)
		switch {
		case errors.Is(err, speaker.ErrTimeout):
			return nil
		case err != nil:
			return l.conn.Masked(err)
		case r.Profile.SaysFull(m.Opcode, m.Payload):
			return errFull
		}
	}
}

// served returns those of the open sessions that the server has not refused or ended meanwhile.
func (r *run) served(open []*link) []*link {
	return slices.DeleteFunc(open, func(l *link) bool {
		gone := r.refusal(l, 10*time.Millisecond) != nil
		if gone {
			l.conn.Hang()
		}
		return gone
	})
}
