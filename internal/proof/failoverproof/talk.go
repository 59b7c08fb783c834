package failoverproof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// talk is one session of the proof, from dialing to its end. It belongs to its goroutine.
type talk struct {
	o        *Options
	p        *protocol
	session  uint64
	dice     *rand.Rand
	judge    *judge
	speech   *speech
	progress hunt.Progress
	conn     line
	ready    bool
	over     bool // the last message came
	trace    kit.Trace
	started  time.Time
	slowest  time.Duration // the longest time without a message while it spoke
	heard    time.Time
}

// line is what a session is held over.
type line interface {
	speaker.Line
	Close(code frame.CloseCode, until time.Time)
	Hang()
	Abort()
}

// seedOf makes sessions differ.
const seedOf = 0x9e3779b97f4a7c15

func newTalk(o *Options, p *protocol, session uint64) *talk {
	if o.Direct { // no server takes the place of another
		strict := *p
		strict.again, p = 0, &strict
	}
	t := &talk{o: o, p: p, session: session, dice: rand.New(rand.NewPCG(o.Seed, session*seedOf))}
	t.progress = hunt.Progress{Number: session, ID: sim.IdentityWord(session)}
	t.judge = newJudge(session, p, func(format string, args ...any) { t.trace.Add("FAULT "+format, args...) })
	chunks := o.MinLength + time.Duration(t.dice.Int64N(int64(o.MaxLength-o.MinLength)+1))
	t.speech = newSpeech(session, p, t.dice, max(1, int(chunks/p.chunk)), o.Utterance)
	return t
}

// hold holds the session over t.conn, which it ends.
func (t *talk) hold(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.conn.Abort)
	defer stop()
	defer t.conn.Hang()
	t.started = time.Now()
	if err := t.speak(); err != nil {
		return err
	}
	return t.end()
}

// again prepares to hold a new session with what no final result has answered.
func (t *talk) again() {
	from := t.speech.rewind(t.judge.end)
	t.trace.Add("begins again at %.3f s, behind chunk %d", from, t.judge.last)
	t.progress = hunt.Progress{Number: t.session, ID: sim.IdentityWord(t.session)}
	t.ready, t.over = false, false
	t.judge.base, t.judge.end, t.judge.number, t.judge.greetings, t.judge.received = from, from, 0, 0, 0
}

// speak sends the start and the audio, each message when it has been spoken.
func (t *talk) speak() error {
	if err := t.say(t.p.Start(&t.progress)); err != nil {
		return err
	}
	if t.p.AwaitsReady() {
		if err := t.listen(time.Now().Add(t.o.Patience), func() bool { return t.ready }); err != nil {
			return fmt.Errorf("waiting for the greeting: %w", err)
		}
	}
	begin := time.Now()
	for {
		audio, pause := t.speech.next()
		if len(audio) == 0 {
			return nil
		}
		due := begin.Add(time.Duration(float64(t.speech.spoken()) / t.o.Speed))
		if err := t.listen(due, nil); err != nil {
			return err
		}
		t.traceAudio(audio)
		t.progress.Audio++
		if err := t.send(t.p.Carry(&t.progress, audio)); err != nil {
			return err
		}
		if t.progress.Audio == 1 {
			if err := t.say(t.p.Follow(&t.progress)); err != nil {
				return err
			}
		}
		if pause {
			if err := t.say(commit); err != nil {
				return err
			}
		}
	}
}

// end ends the session, and waits for its last message or the server's close.
func (t *talk) end() error {
	if err := t.say(t.p.End(&t.progress)); err != nil {
		return err
	}
	t.progress.Ended = true
	t.over = t.p.Lockstep() && t.progress.Received >= t.progress.Sent
	until := time.Now().Add(t.o.Patience)
	err := t.listen(until, func() bool { return t.over })
	var closed *speaker.CloseError
	switch {
	case errors.As(err, &closed) && !t.p.HasLast() && closed.Code == frame.NormalClosure:
	case err != nil:
		return fmt.Errorf("waiting for the end: %w", err)
	case t.p.Closes():
		if err := t.listen(until, func() bool { return false }); !errors.As(err, &closed) || closed.Code != frame.NormalClosure {
			return fmt.Errorf("waiting for the close: %w", err)
		}
	}
	t.conn.Close(frame.NormalClosure, until)
	t.judge.over(t.speech.chunks, t.progress.Audio)
	return nil
}

func (t *talk) say(messages []hunt.Message) error {
	for _, m := range messages {
		t.trace.Add("says %s", describe(m))
		if err := t.send(m); err != nil {
			return err
		}
	}
	return nil
}

func (t *talk) send(m hunt.Message) error {
	t.progress.Sent++
	err := t.conn.Send(m)
	if err == nil || errors.As(err, new(*refusal)) {
		return err
	}
	// How the other side closed says more than the failure to write.
	if why := t.listen(time.Now().Add(time.Second), func() bool { return false }); errors.As(why, new(*speaker.CloseError)) {
		return why
	}
	return err
}

// listen checks what comes until a time, or until done is true if it is not nil; then it is an error if the time comes first.
func (t *talk) listen(until time.Time, done func() bool) error {
	for done == nil || !done() {
		m, err := t.conn.Receive(until)
		switch {
		case errors.Is(err, speaker.ErrTimeout) && done == nil:
			return nil
		case err != nil:
			return err
		}
		t.hear(m)
	}
	return nil
}

// hear checks a message.
func (t *talk) hear(m hunt.Message) {
	now := time.Now()
	if !t.heard.IsZero() {
		t.slowest = max(t.slowest, now.Sub(t.heard))
	}
	t.heard = now
	t.progress.Received++
	t.trace.Add("hears %s", describe(m))
	t.ready = t.ready || t.p.IsReady(m)
	t.judge.message(m, t.progress.Ended)
	switch {
	case t.p.commits: // the client's end commits, too
		t.over = t.progress.Ended && t.judge.finals > t.speech.pauses
	case t.p.HasLast():
		t.over = t.over || t.p.IsLast(&t.progress, m)
	}
}

// traceAudio notes audio that is sent.
func (t *talk) traceAudio(audio []byte) {
	var first, last uint16
	pause := ""
	sim.Marks(audio, func(m sim.Mark) {
		if first == 0 {
			first = m.Seq
		}
		if last = m.Seq; m.Pause {
			pause += fmt.Sprintf(", pause behind %d", m.Seq)
		}
	})
	t.trace.Add("sends %d bytes of %d-%d%s", len(audio), first, last, pause)
}
