package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// realtimeSTTDialogue is a connection to RealtimeSTT's production server (KoljaB/RealtimeSTT, RealtimeSTT_server/production_server.py). It takes a
// place at connect. A turn begins with start, and ends with finalize, after which come the final text of all of it and completion. Audio is behind a
// header, which counts the packets of a turn from 0. All events of the connection are counted. (The real server also has preview and resume.)
type realtimeSTTDialogue struct {
	session string
	events  int
	turns   int
	phase   string // of the turn: receiving or completed; empty for none
	packets int    // of the turn
	heard   int    // bytes of audio in all
	hearing
}

func (d *realtimeSTTDialogue) greet(v *voice) {
	if !v.place() {
		d.fail(v, "session_limit", "Server is at the configured session limit")
		v.end(frame.TryAgainLater, "")
		return
	}
	d.session = fmt.Sprintf("%032x", v.dice.Uint64())
	for _, kind := range []string{"hello", "ready"} {
		d.say(v, opening, kind, `"capabilities":{"audioFormat":"pcm_s16le"}`)
	}
}

func (d *realtimeSTTDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		d.packet(v, message)
		return
	}
	var said struct {
		Type     string  `json:"type"`
		Language *string `json:"language"`
	}
	switch err := json.Unmarshal(message, &said); {
	case err != nil:
		d.fail(v, "invalid_command_json", "Invalid command JSON")
	case said.Type == "start" && d.phase == "receiving":
		d.fail(v, "turn_in_progress", "A turn is already active")
	case said.Type == "start" && said.Language != nil && *said.Language != "en":
		d.fail(v, "unsupported_language", "Unsupported language: "+*said.Language)
	case said.Type == "start":
		d.clear()
		d.phase, d.packets = "receiving", 0
		d.turns++
		d.say(v, opening, "started", `"language":"en","expectedAudioSequence":0`)
	case said.Type == "finalize", said.Type == "finish", said.Type == "stop":
		if d.receiving(v) {
			d.finalize(v)
		}
	case said.Type == "reset", said.Type == "cancel" && d.phase != "":
		d.phase = ""
		d.say(v, last, map[string]string{"reset": "reset", "cancel": "cancelled"}[said.Type], `"previousTurnId":null`)
	case said.Type == "ping":
		d.say(v, remark, "pong", `"serverTime":0`)
	case said.Type == "cancel":
		d.fail(v, "turn_not_started", "There is no active turn to cancel")
	default:
		d.fail(v, "unknown_command", "Unknown command: "+said.Type)
	}
}

func (d *realtimeSTTDialogue) length() time.Duration {
	return time.Duration(d.heard) * time.Second / 32000
}

// receiving reports whether a turn takes audio; if not, it says so.
func (d *realtimeSTTDialogue) receiving(v *voice) bool {
	switch d.phase {
	case "receiving":
		return true
	case "":
		d.fail(v, "turn_not_started", "Send start before audio")
	default:
		d.fail(v, "turn_not_active", "Turn is "+d.phase)
	}
	return false
}

func (d *realtimeSTTDialogue) packet(v *voice, message []byte) {
	if !d.receiving(v) {
		return
	}
	var header struct {
		Frames   int  `json:"frames"`
		Sequence *int `json:"audioSequence"`
	}
	if len(message) < 4 || int(binary.LittleEndian.Uint32(message)) > len(message)-4 {
		d.fail(v, "invalid_audio", "audio packet metadata is incomplete")
		return
	}
	text, audio := message[4:4+binary.LittleEndian.Uint32(message)], message[4+binary.LittleEndian.Uint32(message):]
	switch {
	case json.Unmarshal(text, &header) != nil || header.Sequence == nil || header.Frames*2 != len(audio) || len(audio) == 0:
		d.fail(v, "invalid_audio", "audio packet metadata is invalid")
	case *header.Sequence != d.packets:
		d.fail(v, "audio_sequence_out_of_order", "Audio packets must use contiguous audioSequence values starting at zero")
	default:
		d.packets++
		d.listen(audio)
		d.heard += len(audio)
		d.say(v, partial, "partial", fmt.Sprintf(`"text":%s,"audioEndSampleExclusive":%d`, quote(d.words()), d.bytes/2))
	}
}

func (d *realtimeSTTDialogue) finalize(v *voice) {
	d.phase = "completed"
	d.say(v, remark, "finalizing", fmt.Sprintf(`"audioPackets":%d`, d.packets))
	status := "completed"
	if d.bytes == 0 {
		status = "no_speech"
	}
	d.say(v, final, "final", fmt.Sprintf(`"text":%s,"status":"%s"`, quote(d.words()), status))
	d.say(v, last, "completion", fmt.Sprintf(`"status":"completed","audioPackets":%d,"finalCount":1`, d.packets))
}

func (d *realtimeSTTDialogue) silent(v *voice) {
	d.fail(v, "idle_timeout", "WebSocket closed after exceeding the idle timeout")
	v.end(frame.NormalClosure, "")
}

func (d *realtimeSTTDialogue) fail(v *voice, code, text string) {
	d.say(v, remark, "error", fmt.Sprintf(`"code":"%s","message":%s`, code, quote(text)))
}

// say says an event of that kind with the fields that all have, and others.
func (d *realtimeSTTDialogue) say(v *voice, r role, kind, fields string) {
	turn := ""
	if d.phase != "" {
		turn = fmt.Sprintf(`"turnId":"%s-%d",`, d.session, d.turns)
	}
	d.events++
	v.text(r, `{"type":"%s","apiVersion":"v1","sessionId":"%s",%s"eventSequence":%d,%s}`, kind, d.session, turn, d.events, fields)
}
