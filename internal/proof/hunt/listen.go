package hunt

import (
	"errors"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// awaitEnd waits for the end of the stream, so that no reset cuts off what the server still sends.
func (w *worker) awaitEnd() {
	for w.client.read() == nil {
		w.client.in = w.client.in[:0]
	}
}

// await receives and checks messages until one matches.
func (w *worker) await(it func(m Message) bool) error {
	for {
		m, err := w.client.receive()
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

// listenBriefly receives messages for a moment.
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

// check counts a received message and checks the identities in it.
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
	if leaked {
		w.outcome.Foreign++
	}
	if w.hunt.options.Exact {
		w.tally.take(d, number, m)
	}
}
