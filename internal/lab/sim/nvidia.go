package sim

import (
	"encoding/base64"
	"encoding/json"
	"net/url"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// nvidiaDialogue is a connection to NVIDIA's NeMo-Speech.cpp, /v1/realtime (NVIDIA/NeMo-Speech.cpp, server/http/http_server.cpp, 4f96762). Audio comes
// in binary messages or in base64. Results are final where the speaker pauses, and at a commit, after which times begin anew. Settings are
// taken until audio has come. Those that a session.update does not name stay.
type nvidiaDialogue struct {
	openAIDialogue
	language string
}

func newNVIDIADialogue() *nvidiaDialogue {
	return &nvidiaDialogue{openAIDialogue: *newOpenAIDialogue(url.Values{})}
}

func (d *nvidiaDialogue) greet(v *voice) {
	d.dice = v.dice
	d.begin()
	v.text(opening, `{"type":"session.created","session":{"input_audio_format":"pcm16","sample_rate":16000,"model":"simulated"},"event_id":"%s"}`, d.event())
}

// begin begins another stream of audio.
func (d *nvidiaDialogue) begin() {
	d.heard.next()
	d.times = newTimeline("", 16000)
}

func (d *nvidiaDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		d.audio(v, message)
		return
	}
	var said struct {
		Type    string `json:"type"`
		Audio   string `json:"audio"`
		Session struct {
			Language string `json:"language"`
		} `json:"session"`
	}
	err := json.Unmarshal(message, &said)
	audio, notBase64 := base64.StdEncoding.DecodeString(said.Audio)
	switch {
	case err == nil && said.Type == "session.update" && d.times.heard == 0:
		if said.Session.Language != "" {
			d.language = said.Session.Language
		}
		v.text(remark, `{"type":"session.updated","session":{"language":%s},"event_id":"%s"}`, quote(d.language), d.event())
	case err == nil && said.Type == "input_audio_buffer.append" && notBase64 == nil:
		d.audio(v, audio)
	case err == nil && said.Type == "input_audio_buffer.commit":
		d.result(v, true)
		d.begin()
		v.text(last, `{"type":"input_audio_buffer.committed","event_id":"%s"}`, d.event())
	case err == nil && (said.Type == "input_audio_buffer.clear" || said.Type == "response.cancel"):
		d.clear(v)
		d.begin()
	default:
		v.text(remark, `{"type":"error","error":{"message":"unsupported realtime event type","type":"invalid_request_error"},"event_id":"%s"}`, d.event())
	}
}

func (d *nvidiaDialogue) audio(v *voice, audio []byte) {
	d.utterances(audio, func(ends bool) { d.result(v, ends) })
}

// result says what was heard of the utterance under way.
func (d *nvidiaDialogue) result(v *voice, ends bool) {
	words := beside(d.heard.words(), d.language)
	event, name := "delta", "delta"
	if ends {
		event, name = "completed", "transcript"
	}
	v.text(resultRole(ends), `{"type":"conversation.item.input_audio_transcription.%s","%s":%s,"audio_processed":%g,"event_id":"%s"}`,
		event, name, quote(words), d.times.end(), d.event())
	if ends {
		d.next()
	}
}
