package speaker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Options are how a session is held.
type Options struct {
	// Pace is how many times faster than real time the audio is sent; 0 is for as fast as the server takes it.
	Pace float64
	// Token stands in the client's messages for $token. It must be a new random number for each session.
	Token uint64
	// Opening begins the session instead of the profile's start, if it is not nil; $token stands for the token.
	Opening []string
	// Settings begins the session with the profile's settings, if it has any.
	Settings bool
	// Ready, First and Last bound the waits for the server to be ready, for the first result since the first audio, and for the last result
	// since the client's end. 0 is for no bound on First; the others default to 30 s.
	Ready, First, Last time.Duration
	// Cut leaves the session after this many messages of audio, without an end; 0 for all of the audio.
	Cut int
	// Impatient leaves the session right after the end message.
	Impatient bool
	// Brief ends the session, as the protocol says, once the first result has come.
	Brief bool
	// Due is called before each message of audio, or of text, is sent, with when it was due; nil for no call.
	Due func(at time.Time)
}

const defaultWait = 30 * time.Second

// Received is a message of the server.
type Received struct {
	Message
	// At is when it came, since the session began.
	At time.Duration
	// Audio is how many messages of audio had been sent, and End whether the client's end had been.
	Audio int
	End   bool
}

// Result is what has become of a session.
type Result struct {
	Received []Received
	// Sent is how many messages were sent, Audio how many of audio.
	Sent, Audio int
	// Spoke is when the first audio was to be sent, and Over when the end was, since the session began.
	Spoke, Over time.Duration
	// First is how long the first result has taken since the first audio; Heard reports whether there was one.
	First time.Duration
	Heard bool
	// Text is all texts of results, in order.
	Text string
	// Closed is the server's close; nil if it has not closed.
	Closed *CloseError
	// Complete reports whether the last result has come.
	Complete bool
}

// SaysFull reports whether the server has said that it is full.
func (r *Result) SaysFull(p *profile.Profile) bool {
	if len(r.Received) > 0 {
		if last := r.Received[len(r.Received)-1]; p.SaysFull(last.Opcode, last.Payload) {
			return true
		}
	}
	return r.Closed != nil && p.ClosesFull(r.Closed.Code)
}

// Refused reports whether an error of dialing or of a session is a refusal of the server, and whether it refused because it was full.
func Refused(p *profile.Profile, err error) (refused, full bool) {
	status := (*handshake.StatusError)(nil)
	closed := (*CloseError)(nil)
	switch {
	case errors.As(err, &status):
		return true, p.BusyStatus(status.Status) || status.Status == 503 || status.Status == 429
	case errors.As(err, &closed):
		return true, p.ClosesFull(closed.Code) || closed.Code == frame.TryAgainLater
	}
	return err != nil, false
}

// LateError is what a server did not send in time.
type LateError struct {
	What  string
	Limit time.Duration
}

// Error implements error.
func (e *LateError) Error() string { return fmt.Sprintf("no %s within %v", e.What, e.Limit) }

// FailedError is a message by which a server says that the session has failed.
type FailedError struct {
	Said []byte
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("the server says that the session has failed: %.200q", e.Said)
}

// talk is a session under way.
type talk struct {
	*Recording
	Options
	line    Line
	result  *Result
	began   time.Time
	isReady bool
	ended   bool // the client's end was sent
	text    strings.Builder
}

// Speak holds a session: it says what the profile's client says. It returns when the last result has come, when the session was left as the
// options say, or with an error, and then what has come so far as well. When ctx ends, the caller must abort the line.
func (r *Recording) Speak(ctx context.Context, line Line, o Options) (*Result, error) {
	if o.Ready <= 0 {
		o.Ready = defaultWait
	}
	if o.Last <= 0 {
		o.Last = defaultWait
	}
	t := &talk{Recording: r, Options: o, line: line, result: new(Result), began: time.Now()}
	t.isReady = !r.script.AwaitsReady()
	err := t.hold()
	t.result.Text = t.text.String()
	if closed := (*CloseError)(nil); errors.As(err, &closed) {
		t.result.Closed = closed
		inOrder := closed.Code == frame.NormalClosure || closed.Code == frame.NoStatus // with another code, the server has failed
		if t.ended && inOrder && !r.script.HasLast() && r.profile.EndCloses {
			t.result.Complete, err = true, nil
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t.result, err
}

func (t *talk) hold() error {
	start := t.script.Start
	if t.Settings && len(t.script.Settings) > 0 {
		start = t.script.Settings
	}
	opening := t.Fill(start, t.Token, 0)
	if t.Opening != nil {
		opening = nil
		for _, text := range t.Opening {
			payload := strings.ReplaceAll(text, "$token", fmt.Sprintf("%016x", t.Token))
			opening = append(opening, Message{frame.Text, []byte(payload)})
		}
	}
	if err := t.say(opening); err != nil {
		return err
	}
	if err := t.receive(t.began.Add(t.Ready), func() bool { return t.isReady }); err != nil {
		return late(err, "message that the server is ready", t.Ready)
	}
	spoke := time.Now()
	t.result.Spoke = spoke.Sub(t.began)
	if err := t.stream(spoke); err != nil || t.Cut > 0 && t.Cut < len(t.chunks) {
		return err
	}
	if pause := t.script.Pause; pause > 0 && !t.enough() && !t.Impatient {
		if err := t.receive(time.Now().Add(pause), t.enough); err != nil && !errors.Is(err, ErrTimeout) {
			return err
		}
	}
	over := time.Now() // before it is sent: a server that does not take it is late
	if err := t.say(t.Fill(t.script.End, t.Token, t.result.Audio)); err != nil {
		return err
	}
	t.ended, t.result.Over = true, over.Sub(t.began)
	if t.Impatient {
		return nil
	}
	return t.end(over)
}

// stream sends the audio.
func (t *talk) stream(spoke time.Time) error {
	for i := range t.chunks {
		if t.Cut > 0 && i == t.Cut {
			return nil
		}
		due := time.Now()
		if t.Pace > 0 {
			due = spoke.Add(time.Duration(float64(i) * float64(t.script.Chunk) / t.Pace))
		}
		if err := t.await(due, spoke); err != nil || t.enough() {
			return err
		}
		t.result.Audio++
		if t.Due != nil {
			t.Due(due)
		}
		if err := t.say([]Message{t.Chunk(i, t.Token)}); err != nil {
			return err
		}
		if i == 0 {
			if err := t.say(t.Fill(t.script.Follow, t.Token, 1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// enough reports whether no more audio is needed.
func (t *talk) enough() bool { return t.Brief && t.result.Heard }

// await receives messages until a time, or until the first result is late.
func (t *talk) await(due, spoke time.Time) error {
	limit := spoke.Add(t.First)
	if t.First > 0 && !t.result.Heard && limit.Before(due) {
		if err := t.receive(limit, func() bool { return t.result.Heard }); err != nil {
			return late(err, "result", t.First)
		}
	}
	err := t.receive(due, t.enough)
	if errors.Is(err, ErrTimeout) {
		return nil
	}
	return err
}

// end waits for the last result, and sends silence meanwhile if the server needs that.
func (t *talk) end(over time.Time) error {
	done := func() bool { return t.result.Complete }
	limit := over.Add(t.Last)
	pace := t.Pace
	if pace <= 0 {
		pace = 1
	}
	for sent := time.Duration(0); sent < t.script.Silence && !done(); sent += t.script.Chunk {
		if err := t.say([]Message{t.silence(t.result.Audio + int(sent/t.script.Chunk))}); err != nil {
			return err
		}
		due := over.Add(time.Duration(float64(sent+t.script.Chunk) / pace))
		if err := t.receive(due, done); err != nil && !errors.Is(err, ErrTimeout) {
			return err
		}
	}
	if t.answersAll() {
		t.result.Complete = true
		return nil
	}
	if first := t.began.Add(t.result.Spoke + t.First); t.First > 0 && !t.result.Heard && first.Before(limit) {
		if err := t.receive(first, func() bool { return t.result.Heard || done() }); err != nil {
			return late(err, "result", t.First)
		}
	}
	return late(t.receive(limit, done), "last result", t.Last)
}

// answersAll reports whether each message has got its answer, where the last one ends the session.
func (t *talk) answersAll() bool {
	return t.ended && !t.script.HasLast() && !t.profile.EndCloses && t.profile.Declared == profile.Lockstep && len(t.result.Received) >= t.result.Sent
}

// late says what did not come in time.
func late(err error, what string, limit time.Duration) error {
	if errors.Is(err, ErrTimeout) {
		return &LateError{what, limit}
	}
	return err
}

// say sends messages. If the line fails, what the server said before counts, and how it closed says more.
func (t *talk) say(messages []Message) error {
	for _, m := range messages {
		t.result.Sent++
		err := t.line.Send(m)
		if err == nil {
			continue
		}
		why := t.receive(time.Now().Add(time.Second), func() bool { return false })
		if errors.As(why, new(*CloseError)) {
			return why
		}
		return err
	}
	return nil
}

// receive receives messages until a time, or until done.
func (t *talk) receive(until time.Time, done func() bool) error {
	for !done() {
		m, err := t.line.Receive(until)
		if err != nil {
			return err
		}
		if t.take(m); t.script.HasFailed(m.Opcode, m.Payload, t.Token) {
			return &FailedError{m.Payload}
		}
	}
	return nil
}

// take notes a message.
func (t *talk) take(m Message) {
	at := time.Since(t.began)
	if !t.isReady && t.script.IsReady(m.Opcode, m.Payload, t.Token) {
		t.isReady = true
		t.note(Received{m, at, t.result.Audio, t.ended})
		return
	}
	r := Received{m, at, t.result.Audio, t.ended}
	t.note(r)
	if r.Audio > 0 {
		heard := len(t.script.Texts) == 0
		for _, text := range t.Texts(m) {
			if strings.TrimSpace(text) != "" {
				heard = true
				t.text.WriteString(text)
				t.text.WriteByte(' ')
			}
		}
		if heard && !t.result.Heard {
			t.result.Heard, t.result.First = true, at-t.result.Spoke
		}
	}
	if t.ended && t.script.HasLast() && t.script.IsLast(m.Opcode, m.Payload, t.Token) || t.answersAll() {
		t.result.Complete = true
	}
}

// note keeps a message.
func (t *talk) note(r Received) { t.result.Received = append(t.result.Received, r) }
