package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// openAIDialogue is a connection to OpenAI's Realtime API, simulated from its documents, as far as transcription needs it, and one
// step further: a response is made of the whole conversation. Audio is gathered until it is committed; then it becomes an item of the
// conversation, which belongs to the connection, and is transcribed. No event begins another conversation; the client closes.
type openAIDialogue struct {
	prompt  string // of the transcription
	heard   hearing
	items   int
	history string // the transcripts of all items
	events  int
}

func (d *openAIDialogue) greet(v *voice) {
	v.text(opening, `{"type":"session.created","event_id":"%s","session":{"object":"realtime.session","id":"sess_%016x"}}`, d.event(), v.dice.Uint64())
}

func (d *openAIDialogue) event() string {
	d.events++
	return fmt.Sprintf("event_%d", d.events)
}

func (d *openAIDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said struct {
		Type    string `json:"type"`
		Audio   string `json:"audio"`
		Session struct {
			Transcription *struct {
				Prompt string `json:"prompt"`
			} `json:"input_audio_transcription"`
		} `json:"session"`
	}
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.fail(v, "Could not parse the event: it must be a text message with JSON.")
		return
	}
	switch said.Type {
	case "session.update", "transcription_session.update":
		if said.Session.Transcription != nil {
			d.prompt = said.Session.Transcription.Prompt
		}
		v.text(remark, `{"type":"%sd","event_id":"%s","session":{"object":"realtime.session"}}`, said.Type, d.event())
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(said.Audio)
		if err != nil {
			d.fail(v, "Invalid audio: not base64.")
			return
		}
		d.heard.listen(audio)
	case "input_audio_buffer.clear":
		d.heard.clear()
		v.text(remark, `{"type":"input_audio_buffer.cleared","event_id":"%s"}`, d.event())
	case "input_audio_buffer.commit":
		d.commit(v)
	case "response.create":
		v.text(remark, `{"type":"response.created","event_id":"%s"}`, d.event())
		v.text(final, `{"type":"response.output_text.done","event_id":"%s","text":%s}`, d.event(), quote(d.history))
		v.text(last, `{"type":"response.done","event_id":"%s"}`, d.event())
	default:
		d.fail(v, "Invalid value: "+said.Type)
	}
}

// commit makes an item of the audio.
func (d *openAIDialogue) commit(v *voice) {
	if d.heard.bytes == 0 {
		d.fail(v, "Error committing input audio buffer: buffer too small.")
		return
	}
	previous := "null"
	if d.items > 0 {
		previous = fmt.Sprintf(`"item_%d"`, d.items)
	}
	d.items++
	words := d.heard.words()
	d.heard.clear()
	if d.prompt != "" {
		words += " " + d.prompt
	}
	v.text(remark, `{"type":"input_audio_buffer.committed","event_id":"%s","previous_item_id":%s,"item_id":"item_%d"}`, d.event(), previous, d.items)
	v.text(partial, `{"type":"conversation.item.input_audio_transcription.delta","event_id":"%s","item_id":"item_%d","content_index":0,"delta":%s}`,
		d.event(), d.items, quote(words))
	v.text(last, `{"type":"conversation.item.input_audio_transcription.completed","event_id":"%s","item_id":"item_%d","content_index":0,"transcript":%s}`,
		d.event(), d.items, quote(words))
	if len(d.history)+len(words) < 64<<10 { // a model's context has an end, too
		d.history += words + " "
	}
}

func (d *openAIDialogue) fail(v *voice, reason string) {
	v.text(remark, `{"type":"error","event_id":"%s","error":{"type":"invalid_request_error","message":%s}}`, d.event(), quote(reason))
}
