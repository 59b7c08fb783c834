package hunt

import (
	"errors"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// chunk returns the payload of the next message of audio, which is valid until the next call.
func (w *worker) chunk() []byte {
	d := w.hunt.dialogue
	blocks := d.Blocks
	if blocks == ([2]int{}) {
		blocks = [2]int{1, 24}
	}
	if w.hunt.options.Exact && d.Step > 0 {
		blocks = [2]int{d.Step, d.Step}
	}
	w.progress.Audio++
	mark := sim.Mark{Session: w.progress.Number, Seq: uint16(w.progress.Audio)}
	pause := w.dice.IntN(6) == 0
	w.audio = sim.AppendMark(w.audio[:0], mark, blocks[0]-1+w.dice.IntN(blocks[1]-blocks[0]+1))
	mark.Pause = pause
	w.audio = sim.AppendMark(w.audio, mark, 1)
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
