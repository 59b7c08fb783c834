package sim

import (
	"encoding/json"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// speechmaticsDialogue is a connection to Speechmatics' real-time service, /v2, simulated from its documents: StartRecognition,
// exactly once, is answered with RecognitionStarted, each message of audio with AudioAdded and a transcript, EndOfStream with
// EndOfTranscript, and the server closes. A quota that is used up closes with 4005.
type speechmaticsDialogue struct {
	started bool
	vocab   string
	added   int
	heard   hearing
}

func (d *speechmaticsDialogue) greet(*voice) {}

func (d *speechmaticsDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if !d.started {
			d.fail(v, "protocol_error", "audio before RecognitionStarted", frame.ProtocolError)
			return
		}
		d.added++
		v.text(remark, `{"message": "AudioAdded", "seq_no": %d}`, d.added)
		d.heard.listen(message)
		d.transcript(v, d.heard.pause)
		return
	}
	var said struct {
		Message string `json:"message"`
		Config  struct {
			Vocab []struct {
				Content string `json:"content"`
			} `json:"additional_vocab"`
		} `json:"transcription_config"`
	}
	err := json.Unmarshal(message, &said)
	switch {
	case err != nil:
		d.fail(v, "invalid_message", "not understood", frame.ProtocolError)
	case said.Message == "StartRecognition" && !d.started:
		if !v.place() {
			d.fail(v, "quota_exceeded", "Concurrent Quota Exceeded", 4005)
			return
		}
		d.started = true
		for _, word := range said.Config.Vocab {
			d.vocab += " " + word.Content
		}
		v.text(opening, `{"message": "RecognitionStarted", "id": "%016x"}`, v.dice.Uint64())
	case said.Message == "EndOfStream" && d.started:
		if d.heard.bytes > 0 {
			d.transcript(v, true)
		}
		v.text(last, `{"message": "EndOfTranscript"}`)
		v.end(frame.NormalClosure, "")
	default:
		d.fail(v, "protocol_error", "message "+said.Message+" does not fit", frame.ProtocolError)
	}
}

func (d *speechmaticsDialogue) transcript(v *voice, ends bool) {
	r, name, words := partial, "AddPartialTranscript", d.heard.words()+d.vocab
	if ends {
		r, name = final, "AddTranscript"
		d.heard.next()
	}
	v.text(r, `{"message": "%s", "metadata": {"start_time": 0.0, "end_time": 1.0, "transcript": %s}, "results": []}`, name, quote(words))
}

func (d *speechmaticsDialogue) fail(v *voice, kind, reason string, code frame.CloseCode) {
	v.text(remark, `{"message": "Error", "type": "%s", "reason": %s}`, kind, quote(reason))
	v.end(code, kind)
}

func (d *speechmaticsDialogue) silent(v *voice) {
	d.fail(v, "idle_timeout", "no message for too long", frame.NormalClosure)
}
