package verify

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// manner is how a session is left.
type manner struct {
	name    string
	options func(r *run, recording *speaker.Recording) speaker.Options
	early   bool // its client has not ended it, or has not waited for the end
	cuts    bool // within its audio
}

var manners = []manner{
	{"after its end", func(*run, *speaker.Recording) speaker.Options { return speaker.Options{} }, false, false},
	{"in the middle of its audio", func(r *run, recording *speaker.Recording) speaker.Options {
		return speaker.Options{Cut: 1 + r.dice.IntN(max(1, recording.Chunks()-1))}
	}, true, true},
	{"after its first audio", func(*run, *speaker.Recording) speaker.Options { return speaker.Options{Cut: 1} }, true, true},
	{"without waiting for the last result", func(*run, *speaker.Recording) speaker.Options { return speaker.Options{Impatient: true} }, true, false},
}

// reset tries whether sessions on a reused connection have the results of direct ones, in whichever manner the session before was left.
func (r *run) reset() {
	if r.Profile.Declared == profile.OneShot {
		return
	}
	says := fmt.Sprintf("after the reset (%v), a session has the results of one on a new connection", r.Profile.Declared)
	tried, closed, untold := 0, 0, error(nil)
	for i, m := range manners {
		left := 0
		for order, recording := range r.Recordings {
			if left > 0 && i == 2 || m.cuts && recording.Chunks() == 1 {
				continue
			}
			left++
			n, err := r.reuse(m, order)
			if errors.Is(err, errReworded) {
				untold = err
			} else if err != nil {
				r.verdict("reset", says, "", fmt.Errorf("the session before was left %s: %w", m.name, err))
				return
			}
			if tried += n; n == 0 {
				closed++
			}
		}
		if left == 0 && untold == nil {
			untold = errUncut
		}
	}
	well := fmt.Sprintf("%d sessions on reused connections had the same results and times", tried)
	if closed > 0 {
		well += fmt.Sprintf("; %d connections were closed, as the profile says of sessions that are left early", closed)
	}
	if r.Profile.Reuse != r.Profile.Declared {
		well += "; reuse is off by a doubt, which this does not prove wrong"
	}
	if r.words.differ {
		well += "; words differ from session to session, so only words of other recordings were looked for, and none was found"
	}
	r.verdict("reset", says, well+r.notCompared(), untold)
}

// reuse leaves a session in a manner, and then holds others on the same connection. It returns how many; 0 if the profile closes the
// connection. The error is errReworded if nothing can be said about one, and all others are in order.
func (r *run) reuse(m manner, order int) (int, error) {
	r.begin("reset: a session that was left %s", m.name)
	defer r.hang()
	l, err := r.pooled()
	if err != nil {
		return 0, err
	}
	n := len(r.Recordings)
	one, other := order%n, (order+1)%n
	if _, err := r.hold(l, r.Recordings[one], m.options(r, r.Recordings[one]), 0); err != nil {
		return 0, err
	}
	r.journal.note("the session has ended")
	var untold error
	for i, next := range []int{other, one, other} {
		if err := l.end(time.Now().Add(r.Wait + r.claims.Settle)); err != nil {
			if i == 0 && m.early && !r.claims.Early && (l.reason == profile.LeftEarly || l.reason == profile.Left) {
				return 0, nil
			}
			return 0, err
		}
		if err := l.quiet(min(r.Watch, 50*time.Millisecond)); err != nil {
			return 0, err
		}
		if i == 2 {
			break
		}
		r.journal.note("the next session begins")
		got, err := r.hold(l, r.Recordings[next], speaker.Options{}, 0)
		if err == nil {
			err = r.differs(got.outcome, next)
		}
		if err != nil {
			return 0, fmt.Errorf("session %d on the connection: %w", i+2, err)
		}
		if !r.compared(got.outcome, next) && !r.apart(next) {
			untold = fmt.Errorf("%w, and no other recording has words that this one lacks: use two with different words", errReworded)
		}
	}
	return 2, untold
}

// differs says how an outcome differs from that of direct sessions with a recording.
func (r *run) differs(got *outcome, i int) error {
	if text := r.explain(got, i); text != "" {
		return errors.New(text)
	}
	return nil
}

// settings tries whether a session inherits settings of the one before.
func (r *run) settings() {
	if r.Profile.Declared == profile.OneShot {
		return
	}
	const says = "no session inherits another's settings"
	opening := speaker.Options{Settings: true, Opening: r.Settings}
	if r.Settings == nil && len(r.Profile.Script().Settings) == 0 {
		r.claim("settings", says, NotTried, "the profile has no client.settings: give a first message with settings by --settings")
		return
	}
	r.begin("settings")
	i := r.spoken
	l, err := r.pooled()
	if err == nil {
		_, err = r.hold(l, r.Recordings[i], opening, 0)
		if err != nil && !errors.Is(err, errBudget) {
			r.claim("settings", says, NotTried, fmt.Sprintf("a session with settings failed: %v", err), r.journal.evidence()...)
			return
		}
	}
	well := "a session after one with settings had the results of one on a new connection"
	if err == nil {
		if err = l.end(time.Now().Add(r.Wait)); err == nil {
			var got *held
			got, err = r.hold(l, r.Recordings[i], speaker.Options{}, 0)
			switch {
			case errors.Is(err, errElsewhere):
				well, err = "sessions with other settings get another connection", nil
			case err == nil:
				if err = r.differs(got.outcome, i); err == nil && !r.compared(got.outcome, i) {
					err = errReworded
				}
			}
		}
	}
	r.verdict("settings", says, well, err)
}
