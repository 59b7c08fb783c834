package sim

import (
	"encoding/json"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// whisperLiveEnd is the binary message that ends the audio.
const whisperLiveEnd = "END_OF_AUDIO"

// whisperLiveDialogue is a connection to WhisperLive (collabora/WhisperLive, whisper_live/server.py). The first message is the
// client's options, and takes a place; a server without one answers with WAIT and the minutes to wait for, and closes. At the end
// of the audio it gives what it has and closes. The client's uid stands in every message.
type whisperLiveDialogue struct {
	begun  bool
	uid    string
	prompt string
	heard  hearing
}

func (d *whisperLiveDialogue) greet(*voice) {}

func (d *whisperLiveDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	switch {
	case !d.begun:
		var options struct {
			UID    *string `json:"uid"`
			Prompt string  `json:"initial_prompt"`
		}
		if json.Unmarshal(message, &options) != nil || options.UID == nil { // an exception in the real server
			v.end(frame.NormalClosure, "")
			return
		}
		d.begun, d.uid, d.prompt = true, *options.UID, options.Prompt
		if !v.place() {
			v.text(remark, `{"uid": %s, "status": "WAIT", "message": 9.5}`, quote(d.uid))
			v.end(frame.NormalClosure, "")
			return
		}
		v.text(opening, `{"uid": %s, "message": "SERVER_READY", "backend": "faster_whisper"}`, quote(d.uid))
	case string(message) == whisperLiveEnd:
		if d.heard.bytes > 0 {
			d.segment(v, true)
		}
		v.end(frame.NormalClosure, "")
	case kind == frame.Text: // numpy takes no text in the real server
		v.end(frame.NormalClosure, "")
	default:
		d.heard.listen(message)
		d.segment(v, d.heard.pause)
	}
}

func (d *whisperLiveDialogue) segment(v *voice, completed bool) {
	r, words := partial, d.heard.words()
	if d.prompt != "" {
		words += " " + d.prompt
	}
	if completed {
		r = final
		d.heard.next()
	}
	v.text(r, `{"uid": %s, "segments": [{"start": "0.000", "end": "1.000", "text": %s, "completed": %t}]}`,
		quote(d.uid), quote(words), completed)
}
