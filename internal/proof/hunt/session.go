package hunt

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
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
	progress Progress
	pen      pen
	manner   Manner
	own      bool // a message named the session's own identity
	busy     bool // the server said that it is full
	tally    tally
	outcome  Outcome
	audio    []byte
	scratch  []byte
}

func newWorker(h *hunt) *worker {
	pcg := rand.NewPCG(0, 0)
	dice := rand.New(pcg)
	return &worker{hunt: h, pcg: pcg, dice: dice, client: client{dice: dice}}
}

// errBusy is returned if the server reports in its protocol that it is full.
var errBusy = errors.New("the server is full")

// errLeft is returned if the session ended as planned, without the last result.
var errLeft = errors.New("left")

// session runs the n-th session of the hunt.
func (w *worker) session(ctx context.Context, n uint64) {
	o := &w.hunt.options
	w.pcg.Seed(o.Seed, n)
	w.ctx = ctx
	w.progress = Progress{Number: o.First + n, ID: sim.IdentityWord(o.First + n)}
	if w.dice.Float64() < o.Settings {
		w.progress.Word = w.progress.ID
	}
	w.manner, w.own, w.busy = o.Manners.draw(w.dice), false, false
	w.tally, w.outcome = tally{}, Outcome{Session: w.progress.Number, Manner: w.manner}
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
	w.settle()
	// The session is over, so a reset is harmless. It leaves no connection in TIME_WAIT.
	w.client.drop(true)
	if w.outcome.Kind != "" && o.Pace > 0 {
		_ = w.pause(o.Pace)
	}
}

func (w *worker) dial(ctx context.Context) error {
	d := w.hunt.dialogue
	path := "/"
	if d.Path != nil {
		path = d.Path(&w.progress)
	}
	err := w.client.dial(ctx, w.hunt.address, w.hunt.secure, w.hunt.request(path), time.Now().Add(w.hunt.options.Timeout))
	if err == nil {
		w.pen.from(w.client.conn.LocalAddr().String())
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
		if o.Pace > 0 && w.pause(o.Pace) != nil {
			return w.ctx.Err()
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
		w.complete()
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
			w.complete()
		}
		w.awaitEnd()
		return nil
	case d.Last != nil && errors.Is(err, io.EOF):
		return nil // the server sent no close frame, but the result has arrived
	}
	return err
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

// judge counts the outcome of the session.
func (w *worker) judge(err error) {
	if err == nil || errors.Is(err, errLeft) {
		return
	}
	w.pen.note(err.Error())
	if w.ctx.Err() != nil { // the hunt ends
		return
	}
	w.outcome.Kind = err.Error()
	kind := &w.outcome.Kind
	var status httpError
	var closed closeError
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
		w.outcome.Code, w.outcome.Reason = closed.code, closed.reason
		if closed.code == frame.TryAgainLater {
			w.counts.Refused++
			return
		}
	case errors.Is(err, io.EOF):
		*kind = EndWithoutClose
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		*kind = Reset
	case errors.As(err, &network) && network.Timeout():
		*kind = Timeout
	}
	w.counts.fail(*kind)
}
