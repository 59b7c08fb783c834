package hunt

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/sim"
)

// worker holds one session after the other.
type worker struct {
	hunt   *hunt
	client client
	dice   *rand.Rand
	pcg    *rand.PCG
	counts counts

	// Of the session under way.
	ctx      context.Context
	progress Progress
	pen      pen
	manner   Manner
	own      bool // something of its own audio came back
	busy     bool // the server said that it is full
	audio    []byte
	scratch  []byte
}

func newWorker(h *hunt) *worker {
	pcg := rand.NewPCG(0, 0)
	dice := rand.New(pcg)
	return &worker{hunt: h, pcg: pcg, dice: dice, client: client{dice: dice}}
}

// errLeft is returned when the session has ended as it was to, without the last result.
var errLeft = errors.New("left")

// session holds the n-th session of the hunt.
func (w *worker) session(ctx context.Context, n uint64) {
	o := &w.hunt.options
	w.pcg.Seed(o.Seed, n)
	w.ctx = ctx
	w.progress = Progress{Number: o.First + n, ID: sim.IdentityWord(o.First + n)}
	if w.dice.Float64() < o.Settings {
		w.progress.Word = w.progress.ID
	}
	w.manner, w.own, w.busy = o.Manners.draw(w.dice), false, false
	w.pen = pen{w.hunt.traces.of(w.progress.Number), w.progress.Number}
	w.pen.trace.begin(w.progress.Number, w.manner)
	w.counts.Sessions++
	w.counts.ByManner[w.manner]++

	stop := func() bool { return true }
	err := w.dial(ctx)
	if err == nil {
		conn := w.client.conn
		stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		err = w.converse()
	}
	w.judge(err)
	stop()
	// With the conversation over, a reset spares the system a connection that lingers in TIME_WAIT.
	w.client.drop(true)
}

func (w *worker) dial(ctx context.Context) error {
	d := w.hunt.dialogue
	path := "/"
	if d.Path != nil {
		path = d.Path(&w.progress)
	}
	err := w.client.dial(ctx, w.hunt.address, w.hunt.request(path), time.Now().Add(w.hunt.options.Timeout))
	if err == nil {
		w.pen.from(w.client.conn.LocalAddr().String())
	}
	return err
}

// converse holds the session until its end, or until it leaves.
func (w *worker) converse() error {
	d, o := w.hunt.dialogue, &w.hunt.options
	chunks := 1 + w.dice.IntN(o.MaxChunks)
	leave := -1 // after so many chunks
	if w.manner != CleanEnd && w.manner != Impatient {
		leave = w.dice.IntN(chunks + 1)
	}
	slow := w.dice.IntN(16) == 0 // one in sixteen takes its time
	patient := w.dice.IntN(2) == 0
	if d.Start != nil {
		if err := w.say(d.Start(&w.progress)); err != nil {
			return err
		}
	}
	if d.Ready != nil {
		if err := w.await(func(m Message) bool { return d.Ready(m) }); err != nil {
			return err
		}
	}
	for i := range chunks {
		if i == leave {
			return w.leave()
		}
		if err := w.speak(); err != nil {
			return err
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
	if d.End != nil {
		if err := w.say(d.End(&w.progress)); err != nil {
			return err
		}
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
	if d.Last != nil {
		if !d.Lockstep || w.progress.Received < w.progress.Sent {
			if err := w.await(func(m Message) bool { return d.Last(&w.progress, m) }); err != nil {
				return err
			}
		}
		w.counts.Completed++
		if w.progress.Audio > 0 && !w.own {
			w.counts.Mute++
			w.pen.note("completed without a word of its own audio")
		}
		if !d.Closes {
			w.pen.note("closes")
			if err := w.client.close(frame.NormalClosure); err != nil {
				return nil // the server may have closed at the same time
			}
		}
	}
	var closed closeError
	err := w.await(func(Message) bool { return false })
	switch {
	case errors.As(err, &closed) && (closed.code == frame.NormalClosure || closed.code == frame.NoStatus):
		if d.Closes {
			_ = w.client.close(closed.code)
		}
		if d.Last == nil {
			w.counts.Completed++
			if w.progress.Audio > 0 && !w.own {
				w.counts.Mute++
			}
		}
		w.awaitEOF()
		return nil
	case d.Last != nil && errors.Is(err, io.EOF):
		return nil // without a close frame: not nice, but it has its result
	}
	return err
}

// awaitEOF waits for the end of the stream, so that nobody sees a reset of what was not over.
func (w *worker) awaitEOF() {
	for w.client.read() == nil {
		w.client.in = w.client.in[:0]
	}
}

// leave ends the session as its manner wants it.
func (w *worker) leave() error {
	how := w.manner
	if how == Stall {
		w.pen.note("stalls")
		if w.pause(20*time.Millisecond) != nil {
			return w.ctx.Err()
		}
		how = CloseWithoutEnd + Manner(w.dice.IntN(int(VanishInMessage-CloseWithoutEnd)+1))
	}
	if how == Impatient {
		how = CloseWithoutEnd + Manner(w.dice.IntN(2))
	}
	reset := w.dice.IntN(2) == 0
	kind := w.hunt.dialogue.AudioKind
	if kind == frame.Continuation {
		kind = frame.Binary
	}
	switch how {
	case CloseWithoutEnd:
		w.pen.note("closes")
		if err := w.client.close(frame.GoingAway); err != nil {
			return err
		}
		if w.dice.IntN(2) == 0 {
			if err := w.await(func(Message) bool { return false }); !errors.As(err, new(closeError)) && !errors.Is(err, io.EOF) {
				return err
			}
		}
	case VanishInFrame:
		w.pen.note("vanishes in the middle of a frame")
		whole := w.client.frame(true, kind, w.chunk())
		w.pen.message("sent part of", Message{frame.Binary, w.audio})
		if err := w.client.write(whole[:1+w.dice.IntN(len(whole)-1)]); err != nil {
			return err
		}
	case VanishInMessage:
		w.pen.note("vanishes in the middle of a message")
		payload := w.chunk()
		w.pen.message("sent part of", Message{frame.Binary, w.audio})
		if err := w.client.write(w.client.frame(false, kind, payload[:len(payload)/2])); err != nil {
			return err
		}
	default:
		w.pen.note("vanishes")
	}
	w.client.drop(reset)
	return errLeft
}

// chunk returns the payload of the next message of audio, which is valid until the next call.
func (w *worker) chunk() []byte {
	d := w.hunt.dialogue
	blocks := d.Blocks
	if blocks == ([2]int{}) {
		blocks = [2]int{1, 24}
	}
	w.progress.Audio++
	mark := sim.Mark{Session: w.progress.Number, Seq: uint16(w.progress.Audio), Pause: w.dice.IntN(6) == 0}
	w.audio = sim.AppendMark(w.audio[:0], mark, 1)
	mark.Pause = false
	w.audio = sim.AppendMark(w.audio, mark, blocks[0]-1+w.dice.IntN(blocks[1]-blocks[0]+1))
	if d.Audio == nil {
		return w.audio
	}
	w.scratch = d.Audio(&w.progress, w.scratch[:0], w.audio)
	return w.scratch
}

// speak sends audio.
func (w *worker) speak() error {
	d := w.hunt.dialogue
	kind := d.AudioKind
	if kind == frame.Continuation {
		kind = frame.Binary
	}
	first := w.progress.Audio == 0
	m := Message{kind, w.chunk()}
	w.pen.message("sent", Message{frame.Binary, w.audio})
	if err := w.send(m); err != nil {
		return err
	}
	if first && d.Behind != nil {
		return w.say(d.Behind(&w.progress))
	}
	return nil
}

func (w *worker) say(messages []Message) error {
	for _, m := range messages {
		w.pen.message("sent", m)
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
	if why := w.await(func(Message) bool { return false }); errors.As(why, new(closeError)) {
		return why
	}
	return err
}

// await receives messages, and checks them, until one is it.
func (w *worker) await(it func(m Message) bool) error {
	for {
		m, err := w.client.receive()
		if err != nil {
			return err
		}
		if w.check(m); w.busy {
			return httpError(unavailable)
		}
		if it(m) {
			return nil
		}
	}
}

// listenBriefly receives what comes within a moment, at least one message unless the server is slow.
func (w *worker) listenBriefly() error {
	_ = w.client.conn.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
	err := w.await(func(Message) bool { return len(w.client.in) == 0 })
	_ = w.client.conn.SetReadDeadline(time.Now().Add(w.hunt.options.Timeout))
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// check looks for identities in a message.
func (w *worker) check(m Message) {
	w.pen.message("received", m)
	w.progress.Received++
	w.counts.Messages++
	d := w.hunt.dialogue
	w.busy = d.Busy != nil && d.Busy(m)
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
	if m.Opcode == frame.Binary {
		sim.Marks(m.Payload, func(m sim.Mark) { judge(m.Session) })
	}
	if found {
		w.counts.Checked++
	}
}

// pause waits for a random time up to d.
func (w *worker) pause(d time.Duration) error {
	timer := time.NewTimer(time.Duration(w.dice.Int64N(int64(d))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

const unavailable = 503

// judge counts what became of the session.
func (w *worker) judge(err error) {
	if err == nil || errors.Is(err, errLeft) {
		return
	}
	w.pen.note(err.Error())
	if w.ctx.Err() != nil { // the hunt ends
		return
	}
	kind := err.Error()
	var status httpError
	var closed closeError
	var network net.Error
	switch {
	case errors.As(err, &status) && (status == unavailable || status == 429):
		w.counts.Refused++
		return
	case errors.As(err, &closed) && closed.code == frame.TryAgainLater:
		w.counts.Refused++
		return
	case errors.Is(err, io.EOF):
		kind = "end of the stream without a close frame"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		kind = "connection reset"
	case errors.As(err, &network) && network.Timeout():
		kind = "timeout"
	}
	w.counts.fail(kind)
}
