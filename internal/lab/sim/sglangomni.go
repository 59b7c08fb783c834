package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sglangOmniDialogue is a connection to sglang-omni's live transcription (sgl-project/sglang-omni, sglang_omni/serve/realtime/
// transcription_session.py, 0.1.9). A segment ends where the speaker pauses, or the client commits. After transcription.done, which is answered
// with the text of all segments, the server takes nothing more. Unlike the real server, it says a segment again with each message instead of
// with each two seconds of audio.
type sglangOmniDialogue struct {
	recognition
	id       string
	language string
	speaking bool
	done     bool
	events   int
	segment  int
	texts    []string // of the final segments
}

func newSGLangOmniDialogue() *sglangOmniDialogue {
	return &sglangOmniDialogue{recognition: newRecognition("", 16000)}
}

// tell says an event with those fields.
func (d *sglangOmniDialogue) tell(v *voice, r role, event, format string, args ...any) {
	d.events++
	v.text(r, `{"type": "%s", %s, "event_id": "evt_%016x", "event_index": %d}`, event, fmt.Sprintf(format, args...), v.dice.Uint64(), d.events)
}

func (d *sglangOmniDialogue) fail(v *voice, code string) {
	d.tell(v, remark, "error", `"error": {"type": "invalid_request_error", "code": "%s", "message": "%[1]s"}`, code)
}

func (d *sglangOmniDialogue) session(v *voice, r role, event string) {
	d.tell(v, r, event, `"session": {"id": "%s", "object": "realtime.session", "intent": "transcription", "input_audio_format": "pcm16", "language": %s}`,
		d.id, quote(d.language))
}

func (d *sglangOmniDialogue) greet(v *voice) {
	d.id = fmt.Sprintf("sess_%016x", v.dice.Uint64())
	d.session(v, opening, "session.created")
}

func (d *sglangOmniDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said struct {
		Type    string `json:"type"`
		Audio   string `json:"audio"`
		Session struct {
			Language string `json:"language"`
		} `json:"session"`
	}
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.fail(v, "invalid_json")
		return
	}
	if d.done {
		d.fail(v, "input_already_done")
		return
	}
	switch said.Type {
	case "session.update":
		d.language = said.Session.Language
		d.session(v, remark, "session.updated")
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(said.Audio)
		if err != nil || len(audio)%2 != 0 {
			d.fail(v, "invalid_audio")
			return
		}
		d.utterances(audio, func(ends bool) { d.say(v, ends) })
	case "input_audio_buffer.clear":
		d.heard.clear()
		d.times.next()
		d.speaking = false
		d.tell(v, remark, "input_audio_buffer.cleared", `"segment_id": null`)
	case "input_audio_buffer.commit":
		d.end(v)
	case "transcription.done":
		d.end(v)
		d.done = true
		d.tell(v, last, "transcription.completed", `"text": %s`, quote(strings.Join(d.texts, " ")))
	default:
		d.fail(v, "unsupported_event")
	}
}

// say says the segment under way, which the speaker has ended or not.
func (d *sglangOmniDialogue) say(v *voice, ends bool) {
	if !d.speaking {
		d.speaking = true
		d.tell(v, remark, "input_audio_buffer.speech_started", `"audio_start_ms": %d, "segment_id": %d`, d.times.ms(d.times.from), d.segment)
	}
	if ends {
		d.tell(v, remark, "input_audio_buffer.speech_stopped", `"audio_end_ms": %d, "segment_id": %d`, d.times.ms(d.times.heard), d.segment)
		d.end(v)
		return
	}
	d.result(v, false)
}

// end ends the segment under way, if there is one.
func (d *sglangOmniDialogue) end(v *voice) {
	if d.times.heard == d.times.from {
		return
	}
	d.tell(v, remark, "input_audio_buffer.committed", `"segment_id": %d`, d.segment)
	d.result(v, true)
	d.segment++
	d.speaking = false
	d.next()
}

func (d *sglangOmniDialogue) result(v *voice, ends bool) {
	text := beside(d.heard.words(), d.language)
	if ends {
		d.texts = append(d.texts, text)
	}
	d.tell(v, resultRole(ends), "transcription.segment", `"segment_id": %d, "audio_start_ms": %d, "audio_end_ms": %d, "text": %s, "is_final": %t`,
		d.segment, d.times.ms(d.times.from), d.times.ms(d.times.heard), quote(text), ends)
}
