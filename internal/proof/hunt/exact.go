package hunt

import (
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// tally checks the final results of a session against its audio, for Options.Exact.
type tally struct {
	last        int // the last chunk that a final result named
	lost, twice int
}

// take checks the final results in a message.
func (t *tally) take(d *Dialogue, session uint64, m Message) {
	final := d.Final(m)
	switch {
	case final == nil:
	case m.Opcode == frame.Binary:
		before := 0 // one message has all blocks of a chunk together
		sim.Marks(final, func(m sim.Mark) {
			if m.Session == session && int(m.Seq) != before {
				before = int(m.Seq)
				t.chunks(d, before, before)
			}
		})
	default:
		sim.Chunks(final, func(of uint64, first, last uint16) {
			if of == session && first > 0 { // 0 stands for settings
				t.chunks(d, int(first), int(last))
			}
		})
	}
}

// chunks takes a final result of the chunks first to last.
func (t *tally) chunks(d *Dialogue, first, last int) {
	if last <= t.last { // the same result again
		t.twice += last - first + 1
		return
	}
	if again := t.last - d.Overlap - first + 1; again > 0 {
		t.twice += again
	}
	if missing := first - t.last - 1; missing > 0 {
		t.lost += missing
	}
	t.last = last
}

// complete records that the session got its last result.
func (w *worker) complete() {
	w.counts.Completed++
	w.outcome.Completed = true
	if w.progress.Audio > 0 && !w.own {
		w.counts.Mute++
		w.outcome.Mute = true
		w.trace.Add("completed without a result of its own audio")
	}
}

// settle counts the lost and repeated results of a completed session, and reports the outcome.
func (w *worker) settle() {
	o, t := &w.hunt.options, &w.tally
	if o.Exact && w.outcome.Completed {
		t.lost += w.progress.Audio - t.last
		if answers := w.hunt.dialogue.Answers; answers != nil && t.lost+t.twice == 0 { // partial results count, too
			t.lost = max(0, answers(&w.progress)-w.progress.Received)
			t.twice = max(0, w.progress.Received-answers(&w.progress))
		}
		if t.lost > 0 || t.twice > 0 {
			w.trace.Add("missed %d results and got %d twice", t.lost, t.twice)
		}
		w.outcome.Lost, w.outcome.Twice = t.lost, t.twice
		w.counts.Lost += t.lost
		w.counts.Twice += t.twice
	}
	if o.Outcome != nil && w.ctx.Err() == nil {
		w.outcome.Trace = w.trace.String
		o.Outcome(w.outcome)
	}
}
