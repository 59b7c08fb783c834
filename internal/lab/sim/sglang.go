package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sglangDialogue is a connection to sglang's /v1/realtime (sgl-project/sglang, python/sglang/srt/entrypoints/openai/realtime, 0.5.23), which
// transcribes items as OpenAI's Realtime API does, but only after a session.update, and says what it has heard of an item with each two
// seconds of its audio. An item names the one before it, and what clears an item clears neither that name nor settings. Errors name the
// client's event. Unlike the real server, it does not revise what it has heard.
type sglangDialogue struct {
	openAIDialogue
	configured bool
	previous   string // id of the last item, in JSON
	item       string // id of the item under way
	said       string // of it
	seconds    float64
}

// sglangStep is how much audio the recogniser takes at a time, in seconds.
const sglangStep = 2

func newSGLangDialogue() *sglangDialogue {
	return &sglangDialogue{openAIDialogue: *newOpenAIDialogue(url.Values{"intent": {"transcription"}}), previous: "null"}
}

func (d *sglangDialogue) greet(v *voice) {
	d.dice = v.dice
	if !v.place() {
		d.fail(v, "too_many_sessions", "Maximum concurrent sessions reached.")
		v.end(frame.NormalClosure, "")
		return
	}
	d.begin()
	d.openAIDialogue.greet(v)
}

func (d *sglangDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said openAIEvent
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.cause = ""
		d.fail(v, "invalid_payload", "Invalid JSON")
		return
	}
	d.cause = said.ID
	audio, notBase64 := base64.StdEncoding.DecodeString(said.Audio)
	switch said.Type {
	case "session.update":
		d.configure(v, &said)
	case "input_audio_buffer.append":
		switch {
		case !d.configured:
			d.fail(v, "invalid_state", "Send session.update before audio frames")
		case notBase64 != nil:
			d.fail(v, "invalid_audio", "audio field is not valid base64")
		default:
			if d.listen(audio); d.times.duration() >= sglangStep {
				d.recognise(v)
			}
		}
	case "input_audio_buffer.clear":
		d.clear(v)
		d.begin()
	case "input_audio_buffer.commit":
		if d.times.heard == 0 {
			d.fail(v, "invalid_state", "Cannot commit an empty audio buffer")
			return
		}
		d.committed(v, d.previous, d.item, "conversation.item.created")
		d.recognise(v)
		d.completed(v, d.item, d.said, d.seconds)
		d.previous = `"` + d.item + `"`
		d.heard.next()
		d.begin()
	default:
		if !v.hit(v.nasty.ResetIgnored) {
			d.fail(v, "unknown_event", "Unknown event type: '"+said.Type+"'")
		}
	}
}

// configure takes over settings, and says so.
func (d *sglangDialogue) configure(v *voice, said *openAIEvent) {
	input := &said.Session.Audio.Input
	switch {
	case said.Session.Type != "transcription":
		d.fail(v, "invalid_value", "Input should be 'transcription'")
		return
	case len(input.Turns) > 0 && string(input.Turns) != "null":
		d.fail(v, "not_supported", "Server-side VAD is not implemented; set audio.input.turn_detection: null and commit explicitly.")
		return
	case input.Format != nil && d.times.heard > 0: // at another rate
		d.fail(v, "invalid_state", "Cannot change audio.input.format.rate while audio is buffered; commit or clear the current item first.")
		return
	}
	d.update(said)
	d.configured = true
	d.tell(v, remark, "session.updated")
}

// recognise says what was heard since the last time.
func (d *sglangDialogue) recognise(v *voice) {
	words := d.heard.words()
	if len(d.said) == 0 && d.session.Audio.Input.Transcription != nil {
		words = beside(words, d.session.Audio.Input.Transcription.Language)
	}
	d.seconds += d.times.duration()
	d.next()
	if words == "" {
		return
	}
	if d.said != "" {
		words = " " + words
	}
	d.said += words
	d.delta(v, d.item, words)
}

// begin begins another item.
func (d *sglangDialogue) begin() {
	d.item = fmt.Sprintf("item_%016x", d.dice.Uint64())
	d.said, d.seconds, d.times.heard, d.times.from = "", 0, 0, 0
}
