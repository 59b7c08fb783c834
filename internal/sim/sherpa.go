package sim

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// sherpaFrame is how much audio the model takes at a time, in bytes; what is less waits for more, or for the end.
const sherpaFrame = 64

// sherpaDialogue is a connection to sherpa-onnx's online server in C++ (k2-fsa/sherpa-onnx,
// sherpa-onnx/csrc/online-websocket-server-impl.cc). The text Done ends the stream: a last result, "Done!", and the next
// message begins another stream. Other texts are ignored.
type sherpaDialogue struct {
	heard     hearing
	undecoded []byte
	segment   int
}

func (d *sherpaDialogue) greet(*voice) {}

func (d *sherpaDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	switch {
	case kind == frame.Binary:
		d.undecoded = append(d.undecoded, message[:len(message)/4*4]...)
		whole := len(d.undecoded) / sherpaFrame * sherpaFrame
		if whole == 0 {
			return
		}
		d.heard.listen(d.undecoded[:whole])
		d.undecoded = append(d.undecoded[:0], d.undecoded[whole:]...)
		d.result(v, false)
	case string(message) == "Done" && !v.hit(v.nasty.ResetIgnored):
		d.heard.listen(d.undecoded)
		d.result(v, true)
		v.text(last, "Done!")
		*d = sherpaDialogue{}
	}
}

// result gives a result: a final one at the end of an utterance.
func (d *sherpaDialogue) result(v *voice, eof bool) {
	r, pause := partial, d.heard.pause
	if pause || eof {
		r = final
	}
	v.text(r, `{"text":%s,"tokens":[],"timestamps":[],"segment":%d,"start_time":0.00,"is_final":%t,"is_eof":%t}`,
		quote(d.heard.words()), d.segment, r == final, eof)
	if pause {
		d.heard.next()
		d.segment++
	}
}
