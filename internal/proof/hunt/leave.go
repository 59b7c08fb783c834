package hunt

import (
	"errors"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// leave ends the session in its manner.
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
