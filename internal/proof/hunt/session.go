package hunt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// worker runs one session after the other.
type worker struct {
	hunt   *hunt
	client client
	dice   *rand.Rand
	pcg    *rand.PCG
	counts counts

	// For the current session.
	ctx      context.Context
	deadline time.Time // of what the server sends
	progress Progress
	trace    *trace
	manner   Manner
	own      bool // a message named the session's own identity
	busy     bool // the server said that it is full
	tally    tally
	outcome  Outcome
	audio    []byte
}

func newWorker(h *hunt) *worker {
	pcg := rand.NewPCG(0, 0)
	dice := rand.New(pcg)
	return &worker{hunt: h, pcg: pcg, dice: dice, client: client{dice: dice}, counts: counts{Errors: make(map[string]int)}}
}

// errBusy is returned if the server reports in its protocol that it is full.
var errBusy = errors.New("the server is full")

// errLeft is returned if the session ended as planned, without the last result.
var errLeft = errors.New("left")

// session runs the n-th session of the hunt.
func (w *worker) session(ctx context.Context, n uint64) {
	o := &w.hunt.options
	w.pcg.Seed(o.Seed, n)
	w.ctx, w.deadline = ctx, time.Now().Add(o.Timeout)
	w.progress = Progress{Number: o.First + n, ID: sim.IdentityWord(o.First + n)}
	if w.dice.Float64() < o.Settings {
		w.progress.Word = w.progress.ID
	}
	w.manner, w.own, w.busy = o.Manners.draw(w.dice), false, false
	w.tally, w.outcome = tally{}, Outcome{Session: w.progress.Number, Manner: w.manner, Began: time.Now()}
	w.trace = w.hunt.traces.begin(w.progress.Number, w.manner)
	w.counts.Sessions++
	w.counts.ByManner[w.manner]++

	stop := func() bool { return true }
	err := w.dial(ctx)
	if err == nil {
		stop = context.AfterFunc(ctx, w.client.Abort)
		err = w.converse()
	}
	w.judge(err)
	stop()
	w.settle()
	// The session is over, so a reset is harmless. It leaves no connection in TIME_WAIT.
	w.client.drop(true)
	rest := o.Rest
	if w.outcome.Kind != "" {
		rest = max(rest, o.Pace)
	}
	if rest > 0 {
		_ = w.pause(rest)
	}
}

func (w *worker) dial(ctx context.Context) error {
	var from net.IP
	if w.hunt.options.From != nil {
		from = w.hunt.options.From(w.progress.Number)
	}
	err := w.client.dial(ctx, from, w.hunt.address, w.hunt.secure, w.hunt.request(w.hunt.dialogue.Path(&w.progress)), w.hunt.options.Timeout)
	if err == nil {
		w.outcome.Upgraded = time.Since(w.outcome.Began)
		w.trace.Add("from %v", w.client.tcp.LocalAddr())
	}
	return err
}

// converse runs the session until its end, or until the client leaves.
func (w *worker) converse() error {
	d, o := w.hunt.dialogue, &w.hunt.options
	chunks := 1 + w.dice.IntN(o.MaxChunks)
	leave := -1 // how many chunks to send before leaving
	if w.manner != CleanEnd && w.manner != Impatient {
		leave = w.dice.IntN(chunks + 1)
	}
	slow := w.dice.IntN(16) == 0
	patient := w.dice.IntN(2) == 0
	if err := w.say(d.Start(&w.progress)); err != nil {
		return err
	}
	if d.AwaitsReady() {
		if err := w.await(d.IsReady); err != nil {
			return err
		}
	}
	for i := 0; i < chunks || o.Lasting && !w.hunt.finishing(); i++ {
		if i == leave {
			return w.leave()
		}
		if o.Pace > 0 && w.pause(o.Pace) != nil {
			return w.ctx.Err()
		}
		if o.Lasting {
			w.deadline = time.Now().Add(o.Timeout)
		}
		if err := w.speak(); err != nil {
			return err
		}
		if o.Lasting {
			if err := w.await(func(Message) bool { return w.progress.Received >= w.progress.Sent }); err != nil {
				return err
			}
		}
		if slow && w.pause(3*time.Millisecond) != nil {
			return w.ctx.Err()
		}
		if patient {
			if err := w.listenBriefly(); err != nil {
				return err
			}
		}
	}
	if leave == chunks {
		return w.leave()
	}
	if err := w.say(d.End(&w.progress)); err != nil {
		return err
	}
	w.progress.Ended = true
	if w.manner == Impatient {
		return w.leave()
	}
	return w.end()
}

// end waits for the last result, and for the end of the connection.
func (w *worker) end() error {
	d := w.hunt.dialogue
	if d.HasLast() {
		if !d.Lockstep() || w.progress.Received < w.progress.Sent {
			if err := w.await(func(m Message) bool { return d.IsLast(&w.progress, m) }); err != nil {
				return err
			}
		}
		w.complete()
		if !d.Closes() {
			w.trace.Add("closes")
			if err := w.client.SendClose(frame.NormalClosure); err != nil {
				return nil // the server may have closed at the same time
			}
		}
	}
	var closed *speaker.CloseError
	err := w.await(never)
	switch {
	case errors.As(err, &closed) && (closed.Code == frame.NormalClosure || closed.Code == frame.NoStatus):
		if !d.HasLast() {
			w.complete()
		}
		w.client.Close(closed.Code, w.deadline) // it waits for the end of the stream, so that no reset cuts off what the server still sends
		return nil
	case d.HasLast() && errors.Is(err, io.EOF):
		return nil // the server sent no close frame, but the result has arrived
	}
	return err
}

// pause waits for a random time up to d.
func (w *worker) pause(d time.Duration) error {
	return kit.Wait(w.ctx, time.Duration(w.dice.Int64N(int64(d))))
}

const unavailable = 503

// judge counts the outcome of the session.
func (w *worker) judge(err error) {
	if err == nil || errors.Is(err, errLeft) {
		return
	}
	w.trace.Add("%v", err)
	if w.ctx.Err() != nil { // the hunt ends
		return
	}
	w.outcome.Kind = err.Error()
	kind := &w.outcome.Kind
	var status httpError
	var closed *speaker.CloseError
	var network net.Error
	switch {
	case errors.Is(err, errBusy):
		w.counts.Busy++
		return
	case errors.As(err, &status):
		w.outcome.Status = int(status)
		if status == unavailable || status == 429 {
			w.counts.Refused++
			return
		}
	case errors.As(err, &closed):
		w.outcome.Code, w.outcome.Reason = closed.Code, closed.Reason
		if *kind = fmt.Sprintf("close %v", closed.Code); closed.Code == frame.TryAgainLater {
			w.counts.Refused++
			return
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		*kind = EndWithoutClose
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		*kind = Reset
	case errors.Is(err, speaker.ErrTimeout), errors.As(err, &network) && network.Timeout():
		*kind = Timeout
	}
	w.counts.Errors[*kind]++
}

// chunk returns the next message of audio, which is valid until the next call.
func (w *worker) chunk() Message {
	d := w.hunt.dialogue
	blocks := cmp.Or(d.Blocks, [2]int{1, 24})
	if w.hunt.options.Exact && d.Step > 0 {
		blocks = [2]int{d.Step, d.Step}
	}
	w.progress.Audio++
	mark := sim.Mark{Session: w.progress.Number, Seq: uint16(w.progress.Audio)}
	pause := w.dice.IntN(6) == 0
	w.audio = sim.AppendMark(w.audio[:0], mark, blocks[0]-1+w.dice.IntN(blocks[1]-blocks[0]+1))
	mark.Pause = pause
	w.audio = sim.AppendMark(w.audio, mark, 1)
	return d.Carry(&w.progress, w.audio)
}

// speak sends audio.
func (w *worker) speak() error {
	d := w.hunt.dialogue
	first := w.progress.Audio == 0
	m := w.chunk()
	w.trace.message("sent", Message{Opcode: frame.Binary, Payload: w.audio})
	if err := w.send(m); err != nil {
		return err
	}
	if first {
		return w.say(d.Follow(&w.progress))
	}
	return nil
}

func (w *worker) say(messages []Message) error {
	for _, m := range messages {
		w.trace.message("sent", m)
		if err := w.send(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) send(m Message) error {
	w.progress.Sent++
	w.counts.Sent++
	err := w.client.send(m)
	if err == nil {
		return nil
	}
	// The server has closed. What it said before counts, and how it closed says more than the failure to write.
	if why := w.await(never); errors.As(why, new(*speaker.CloseError)) {
		return why
	}
	return err
}

// await receives and checks messages until one matches.
func (w *worker) await(it func(m Message) bool) error { return w.awaitUntil(w.deadline, it) }

// never is what [worker.await] gets that waits for the server's close.
func never(Message) bool { return false }

func (w *worker) awaitUntil(until time.Time, it func(m Message) bool) error {
	for {
		m, err := w.client.Receive(until)
		if err != nil {
			return err
		}
		if w.check(m); w.busy {
			return errBusy
		}
		if it(m) {
			return nil
		}
	}
}

// listenBriefly receives a message if one comes within a moment.
func (w *worker) listenBriefly() error {
	err := w.awaitUntil(time.Now().Add(2*time.Millisecond), func(Message) bool { return true })
	w.deadline = time.Now().Add(w.hunt.options.Timeout)
	if errors.Is(err, speaker.ErrTimeout) {
		return nil
	}
	return err
}

// check counts a received message and checks the identities in it.
func (w *worker) check(m Message) {
	w.trace.message("received", m)
	w.progress.Received++
	w.counts.Messages++
	if w.outcome.Answered == 0 {
		w.outcome.Answered = time.Since(w.outcome.Began)
	}
	d := w.hunt.dialogue
	w.busy = d.IsBusy(m)
	number := w.progress.Number
	found, leaked := false, false
	judge := func(session uint64) {
		found = true
		if session != number {
			if !leaked {
				w.hunt.leaked(number, session, m)
			}
			leaked = true
			return
		}
		w.own = true
	}
	sim.Identities(m.Payload, judge)
	if d.Speech != nil {
		sim.Marks(d.Speech(m), func(m sim.Mark) { judge(m.Session) })
	} else if m.Opcode == frame.Binary {
		sim.Marks(m.Payload, func(m sim.Mark) { judge(m.Session) })
	}
	if found {
		w.counts.Checked++
	}
	if leaked {
		w.outcome.Foreign++
	}
	if w.hunt.options.Exact {
		w.tally.take(d, number, m)
	}
}

// leave ends the session in its manner.
func (w *worker) leave() error {
	how := w.manner
	if how == Stall {
		w.trace.Add("stalls")
		if w.pause(20*time.Millisecond) != nil {
			return w.ctx.Err()
		}
		how = CloseWithoutEnd + Manner(w.dice.IntN(int(VanishInMessage-CloseWithoutEnd)+1))
	}
	if how == Impatient {
		how = CloseWithoutEnd + Manner(w.dice.IntN(2))
	}
	reset := w.dice.IntN(2) == 0
	switch how {
	case CloseWithoutEnd:
		w.trace.Add("closes")
		if err := w.client.SendClose(frame.GoingAway); err != nil {
			return err
		}
		if w.dice.IntN(2) == 0 {
			if err := w.await(never); !errors.As(err, new(*speaker.CloseError)) && !errors.Is(err, io.EOF) {
				return err
			}
		}
	case VanishInFrame:
		w.trace.Add("vanishes in the middle of a frame")
		m := w.chunk()
		w.trace.message("sent part of", Message{Opcode: frame.Binary, Payload: w.audio})
		if err := w.client.sendPart(m); err != nil {
			return err
		}
	case VanishInMessage:
		w.trace.Add("vanishes in the middle of a message")
		m := w.chunk()
		w.trace.message("sent part of", Message{Opcode: frame.Binary, Payload: w.audio})
		if err := w.client.SendFragment(m); err != nil {
			return err
		}
	default:
		w.trace.Add("vanishes")
	}
	w.client.drop(reset)
	return errLeft
}
