package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// UnknownModel is the name of a model that no simulated server has.
const UnknownModel = "unknown-model"

// vllmDialogue is a connection to vLLM's /v1/realtime (vllm-project/vllm, vllm/entrypoints/speech_to_text/realtime/connection.py). Audio
// waits in a queue until a commit starts the generation, which reads it as it comes; a commit with "final" puts an end mark
// into the queue. When the generation reads the mark it says what it has, and empties the queue. Whatever is put into the queue
// while no generation runs waits for the next one, end marks included.
type vllmDialogue struct {
	ended     bool // no message is answered any longer
	validated bool // session.update has named a model
	running   bool // a generation
	queue     [][]byte
	heard     hearing
	said      []byte // what the generation has said
	bytes     int    // of audio in all: 16 kHz in 16 bits
}

func (d *vllmDialogue) greet(v *voice) {
	v.text(opening, `{"type":"session.created","id":"sess-%016x","created":1767225600}`, v.dice.Uint64())
}

func (d *vllmDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said struct {
		Type  string  `json:"type"`
		Audio string  `json:"audio"`
		Model *string `json:"model"`
		Final bool    `json:"final"`
	}
	if d.ended = d.ended || kind != frame.Text; d.ended { // the real server's endpoint fails, but its connection stays open
		return
	}
	if json.Unmarshal(message, &said) != nil {
		d.fail(v, "Invalid JSON", "invalid_json")
		return
	}
	switch said.Type {
	case "session.update":
		switch {
		case said.Model == nil: // since 0.33: before, a session.update without a model was fine
			d.fail(v, "Missing required field: model", "invalid_event")
			return
		case *said.Model == UnknownModel: // an empty name stands for the model
			d.fail(v, "The model `"+UnknownModel+"` does not exist.", "model_not_found")
			return
		}
		d.validated = true
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(said.Audio)
		if err != nil || len(audio) == 0 {
			d.fail(v, "Invalid audio data", "invalid_audio")
			break
		}
		d.queue = append(d.queue, audio)
		d.bytes += len(audio)
	case "input_audio_buffer.commit":
		switch {
		case !d.validated:
			d.fail(v, "Model not validated. Make sure to validate the model by sending a session.update event.", "model_not_validated")
		case !said.Final:
			d.running = true // or it is already
		case !v.hit(v.nasty.ResetIgnored):
			d.queue = append(d.queue, nil)
		}
	default:
		d.fail(v, "Unknown event type: "+said.Type, "unknown_event")
	}
	d.generate(v)
}

// generate lets the generation, if there is one, read the queue.
func (d *vllmDialogue) generate(v *voice) {
	for d.running && len(d.queue) > 0 {
		audio := d.queue[0]
		d.queue = d.queue[1:]
		if audio == nil {
			d.done(v)
			d.queue = nil
			return
		}
		d.heard.listen(audio)
		delta := d.heard.words()
		d.heard.next()
		if len(d.said) > 0 && delta != "" {
			delta = " " + delta
		}
		d.said = append(d.said, delta...)
		v.text(partial, `{"type":"transcription.delta","delta":%s}`, quote(delta))
		if v.hit(v.nasty.EarlyDone) {
			d.done(v)
			d.queue = nil
		}
	}
}

// done ends the generation.
func (d *vllmDialogue) done(v *voice) {
	v.text(last, `{"type":"transcription.done","text":%s,"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
		quote(string(bytes.TrimSpace(d.said))))
	d.running, d.said = false, d.said[:0]
	d.heard.clear()
}

func (d *vllmDialogue) length() time.Duration { return time.Duration(d.bytes) * time.Second / 32000 }

func (d *vllmDialogue) fail(v *voice, text, code string) {
	v.text(remark, `{"type":"error","error":%s,"code":%s}`, quote(text), quote(code))
}
