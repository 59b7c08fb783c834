package sim

import (
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	// sherpaFrame is how much audio the model takes at a time, in bytes; what is less waits for more, or for the end.
	sherpaFrame = 64
	// sherpaChunk is how much audio is decoded at a time at most, in bytes: 320 ms, as the streaming zipformers do.
	sherpaChunk = sherpaPerSecond * 32 / 100
	// sherpaPerSecond are the bytes of a second of audio: 16,000 samples of 32 bits.
	sherpaPerSecond = 64000
)

// sherpaDialogue is a connection to sherpa-onnx's online server in C++ (k2-fsa/sherpa-onnx,
// sherpa-onnx/csrc/online-websocket-server-impl.cc). The text Done ends the stream: a last result, "Done!", and the next
// message begins another stream. Other texts are ignored. Each chunk that was decoded is answered, silence as well. (Real models wait for
// a whole chunk; here a chunk ends with its message.) start_time is where the segment begins in the stream, timestamps count from there.
//
// The server in Python (python-api-examples/streaming_server.py) sends only the text and the segment's number, closes after Done, and fails with
// 1011 at other texts.
type sherpaDialogue struct {
	recognition
	undecoded []byte
	segment   int
	python    bool
}

func newSherpaDialogue(python bool) *sherpaDialogue {
	return &sherpaDialogue{recognition: recognition{times: timeline{perSecond: sherpaPerSecond}}, python: python}
}

func (d *sherpaDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	switch {
	case kind == frame.Binary:
		d.undecoded = append(d.undecoded, message[:len(message)/4*4]...)
		whole := len(d.undecoded) / sherpaFrame * sherpaFrame
		if whole == 0 {
			return
		}
		for chunk := range slices.Chunk(d.undecoded[:whole], sherpaChunk) {
			d.utterances(chunk, func(ends bool) { d.result(v, ends, false) })
		}
		d.undecoded = append(d.undecoded[:0], d.undecoded[whole:]...)
	case string(message) == "Done" && !v.hit(v.nasty.ResetIgnored):
		d.listen(d.undecoded)
		d.result(v, true, true)
		if d.python {
			v.end(frame.NormalClosure, "")
			return
		}
		v.text(last, "Done!")
		*d = *newSherpaDialogue(false)
	case d.python:
		v.end(frame.InternalError, fmt.Sprintf("no audio: %.40q", message))
	}
}

// result gives a result: a final one at the end of an utterance.
func (d *sherpaDialogue) result(v *voice, ends, eof bool) {
	words := d.heard.words()
	if d.python {
		v.text(resultRole(ends), `{"text": %s, "segment": %d}`, quote(words), d.segment)
	} else {
		d.detailed(v, words, ends, eof)
	}
	if ends && !eof {
		d.next()
		d.segment++
	}
}

// detailed gives a result as the server in C++ does.
func (d *sherpaDialogue) detailed(v *voice, words string, ends, eof bool) {
	tokens := timedJSON(&d.times, words, func(w timedWord) string { return w.text })
	times := timedJSON(&d.times, words, func(w timedWord) float64 { return toMillisecond(w.start - d.times.start()) })
	v.text(resultRole(ends), `{"text":%s,"tokens":%s,"timestamps":%s,"segment":%d,"start_time":%.3f,"is_final":%t,"is_eof":%t}`,
		quote(words), tokens, times, d.segment, d.times.start(), ends, eof)
}
