package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// whisperLiveEnd is the binary message that ends the audio.
const whisperLiveEnd = "END_OF_AUDIO"

// whisperLiveDialogue is a connection to WhisperLive (collabora/WhisperLive, whisper_live/server.py). The first message is the
// client's options, and takes a place; a server without one answers with WAIT and the minutes to wait for, and closes. At the end
// of the audio it gives what it has and closes. The client's uid stands in every message. A message lists the last ten completed
// segments, and behind them the one under way; their times are texts, in seconds since the connection began.
type whisperLiveDialogue struct {
	begun  bool
	uid    string
	prompt string
	recognition
	completed []string // the last segments
}

// whisperLiveListed is how many completed segments a message lists at most: send_last_n_segments.
const whisperLiveListed = 10

func (d *whisperLiveDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	switch {
	case !d.begun:
		var options struct {
			UID    *string `json:"uid"`
			Prompt string  `json:"initial_prompt"`
			Format string  `json:"audio_format"`
		}
		if json.Unmarshal(message, &options) != nil || options.UID == nil { // an exception in the real server
			v.end(frame.NormalClosure, "")
			return
		}
		d.begun, d.uid, d.prompt = true, *options.UID, options.Prompt
		d.times = newTimeline(cmp.Or(options.Format, "float32"), 16000)
		if !v.place() {
			v.text(remark, `{"uid": %s, "status": "WAIT", "message": 9.5}`, quote(d.uid))
			v.end(frame.NormalClosure, "")
			return
		}
		v.text(opening, `{"uid": %s, "message": "SERVER_READY", "backend": "faster_whisper"}`, quote(d.uid))
	case string(message) == whisperLiveEnd:
		if d.heard.bytes > 0 && !v.hit(v.nasty.DroppedEnd) {
			d.segment(v, true)
		}
		v.end(frame.NormalClosure, "")
	case kind == frame.Text: // numpy takes no text in the real server
		v.end(frame.NormalClosure, "")
	default:
		d.utterances(message, func(ends bool) { d.segment(v, ends) })
	}
}

// expire ends a session at its age.
func (d *whisperLiveDialogue) expire(v *voice) {
	v.text(remark, `{"uid": %s, "message": "DISCONNECT"}`, quote(d.uid))
	v.end(frame.NormalClosure, "")
}

func (d *whisperLiveDialogue) segment(v *voice, completed bool) {
	words := beside(d.heard.words(), d.prompt)
	segment := fmt.Sprintf(`{"start": "%.3f", "end": "%.3f", "text": %s, "completed": %t}`, d.times.start(), d.times.end(), quote(words), completed)
	list := append(slices.Clip(d.completed), segment)
	if completed {
		d.next()
		list = list[max(0, len(list)-whisperLiveListed):]
		d.completed = list
	}
	v.text(resultRole(completed), `{"uid": %s, "segments": [%s]}`, quote(d.uid), strings.Join(list, ", "))
}
