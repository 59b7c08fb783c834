package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Canary is a recording that a backend is played from time to time, as its clients would, to see whether it recognises speech.
type Canary struct {
	// Recording is what is played.
	Recording *speaker.Recording
	// Name tells the recording and what is said with it from others; a changed file has another name.
	Name string
	// Interval is the time between two plays, plus or minus a fifth; default 30 s. While a change of the verdict is in the air, it is a fifth.
	Interval time.Duration
	// Timeout bounds the wait for the place, then that for the connection and for the server to be ready, and then those for the first
	// result and for the last one; default 10 s.
	Timeout time.Duration
	// Text is what the results must contain, case and punctuation aside; empty for any result.
	Text string
	// Proven is set when the canary has passed on any of the service's backends. Until then, nothing shows that it can pass at all: it may be
	// in another language, or for another model. So its failures take no backend out of service. Nil for a canary that is known to be right.
	Proven *atomic.Bool
	// Fall is how many plays in a row must fail to take the backend out of service; default 3.
	Fall int
	// Rise is how many in a row must succeed to bring it back; default 2.
	Rise int
}

// proven reports whether the canary has passed anywhere.
func (c *Canary) proven() bool { return c.Proven == nil || c.Proven.Load() }

// MaxCanary is how much of a recording is played.
const MaxCanary = 10 * time.Second

// canaryPace is how many times faster than real time a canary is played: servers that drop what comes too fast must hear it as speech.
const canaryPace = 1

func (c *Canary) setDefaults() {
	setDefault(&c.Interval, 30*time.Second)
	setDefault(&c.Timeout, 10*time.Second)
	setDefault(&c.Fall, 3)
	setDefault(&c.Rise, 2)
}

// equal reports whether two canaries, each nil for none, are the same.
func (c *Canary) equal(other *Canary) bool {
	if c == nil || other == nil {
		return c == other
	}
	a, b := *c, *other
	a.Recording, b.Recording = nil, nil
	return a == b
}

// notPlayedError is why a canary could not be played. It says nothing about whether the server works.
type notPlayedError string

// Error implements error.
func (e notPlayedError) Error() string { return string(e) }

const (
	errNoSpare  = notPlayedError("not played: no two places of the pool are spare")
	errNotSpare = notPlayedError("not played: the place that was to be spare did not come free in time")
)

// runCanary plays until ctx ends, and tells each verdict.
//
// A failure of a canary that has not passed anywhere is no verdict: doubt is told instead. It becomes one as soon as the canary has passed on
// another backend.
func runCanary(ctx context.Context, c *Canary, play func(context.Context) error, notPlayed, doubt func(reason string), tell func(up bool, reason string)) {
	v := verdict{fall: c.Fall, rise: c.Rise}
	repeat(ctx, func() time.Duration {
		err := play(ctx)
		if ctx.Err() != nil {
			return 0
		}
		if err == nil && c.Proven != nil {
			c.Proven.Store(true)
		}
		silent := notPlayedError("")
		switch {
		case errors.As(err, &silent):
			notPlayed(silent.Error())
		case machine.Local(err):
			notPlayed("not played: " + err.Error())
		case err != nil && !c.proven():
			doubt(err.Error())
		default:
			v.note(err, tell)
		}
		if v.agreeing > 0 || v.known && !v.up {
			return c.Interval / 5
		}
		return c.Interval
	})
}

// playCanary plays the canary once, on its own connection, which has a place of the pool, so that the server never sees more connections
// than its cap, and no client goes without.
func (b *Backend) playCanary(ctx context.Context, c *Canary) (err error) {
	defer b.worker.guard.Recover("canary", func() { err = notPlayedError("not played: " + panics.Err.Error()) })
	if !b.worker.mayDial() {
		return errNoSpare
	}
	spare, retired, ok := b.reserveSpare()
	if !ok {
		return errNoSpare
	}
	defer spare.Done()
	o := b.config.Load()
	free := time.NewTimer(c.Timeout)
	defer free.Stop()
	select {
	case <-spare.Ready():
	case <-free.C:
		if retired { // an idle connection, which a server that works closes at once
			return &speaker.LateError{What: "answer to the close of an idle connection", Limit: c.Timeout}
		}
		return errNotSpare
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.speakCanary(ctx, o, c)
}

// speakCanary dials the server, and plays it the canary.
func (b *Backend) speakCanary(ctx context.Context, o *dialConfig, c *Canary) error {
	limit := time.Now().Add(c.Timeout)
	dialing, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	established, err := o.Target.With(handshake.ClientPart{Query: c.Recording.Query()}).Dial(dialing)
	if err != nil {
		why := o.classify(clientValues{}, err)
		if anonymous := (anonymousRefusedError{}); errors.As(why, &anonymous) {
			return notPlayedError("not played: the server wants a client's credentials: " + err.Error())
		}
		if errors.Is(why, errFull) {
			return notPlayedError("not played: " + why.Error())
		}
		if ctx.Err() == nil && !time.Now().Before(limit) { // the dial may see that earlier than its context
			return fmt.Errorf("%w: %w", &speaker.LateError{What: "connection", Limit: c.Timeout}, err)
		}
		return err
	}
	conn := speaker.NewConn(established, c.Timeout)
	defer context.AfterFunc(ctx, conn.Abort)()
	result, err := c.Recording.Speak(ctx, conn, speaker.Options{
		Pace: canaryPace, Token: rand.Uint64(), Ready: max(time.Until(limit), time.Millisecond), First: c.Timeout, Last: c.Timeout, Brief: c.Text == "",
	})
	if result.Heard {
		o.Meter.Canary.Observe(result.First)
		b.report.heardCanary(result.First)
	}
	if err == nil {
		conn.Close(frame.NormalClosure, time.Now().Add(o.CloseTimeout))
	} else {
		conn.Hang()
	}
	switch {
	case result.SaysFull(o.Profile):
		return notPlayedError("not played: " + errFull.Error())
	case err != nil:
		return conn.Masked(err)
	case !result.Heard:
		return &speaker.LateError{What: "result", Limit: c.Timeout}
	case !speaker.Contains(result.Text, c.Text):
		return fmt.Errorf("the results do not contain %q: %.200q", c.Text, lastText(conn.Mask(result.Text)))
	}
	b.report.canaryNotPlayed("") // this one was
	return nil
}

// lastText returns the end of a text, where the last results are.
func lastText(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[max(0, len(words)-20):], " ")
}

// play has the backend played this canary from now on; nil is for none. With anew, it is played at once even if it is the same, because
// the backend is dialed with other options now. It does not wait for one that is being played. It is called with updating held.
func (b *Backend) play(c *Canary, anew bool) {
	before := b.played
	same := before.equal(c)
	if same && (!anew || c == nil) {
		return
	}
	b.played = c
	b.playing.replace(b.worker.ctx, func(ctx context.Context) {
		if !same && before != nil {
			b.worker.canaryEnded()
		}
		if c == nil {
			return
		}
		b.report.begins(canaryOf)
		runCanary(ctx, c, func(ctx context.Context) error {
			err := b.playCanary(ctx, c)
			if err == nil {
				b.worker.checked(true)
			}
			return err
		}, b.report.canaryNotPlayed, b.report.doubtCanary, b.worker.canaryAnswered)
	})
}
