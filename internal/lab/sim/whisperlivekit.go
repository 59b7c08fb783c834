package sim

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// whisperLiveKitDialogue is a connection to WhisperLiveKit's /asr (QuentinFuxa/WhisperLiveKit, whisperlivekit/basic_server.py).
// Each result is the whole state: the lines so far, and what may still change. An empty binary message ends the audio: the last
// state, ready_to_stop, and then the server waits for the client to close; nothing begins another session. The audio is 16 kHz in 16
// bits, as the greeting says; times are texts, since the connection began.
type whisperLiveKitDialogue struct {
	lines []byte // so far, as JSON
	recognition
	ended bool
}

func newWhisperLiveKitDialogue() *whisperLiveKitDialogue {
	return &whisperLiveKitDialogue{recognition: newRecognition("int16", 16000)}
}

func (d *whisperLiveKitDialogue) greet(v *voice) {
	if !v.place() {
		v.end(frame.TryAgainLater, "no place for another session")
		return
	}
	v.text(opening, `{"type":"config","useAudioWorklet":true}`)
}

func (d *whisperLiveKitDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	switch {
	case kind != frame.Binary: // receive_bytes fails in the real server
		v.end(frame.NormalClosure, "")
	case d.ended:
	case len(message) == 0:
		d.ended = true
		d.endLine()
		d.state(v, final, "")
		v.text(last, `{"type":"ready_to_stop"}`)
	default:
		d.utterances(message, func(ends bool) {
			if ends {
				d.endLine()
			}
		})
		d.state(v, partial, d.heard.words())
	}
}

// endLine makes a line of what was heard.
func (d *whisperLiveKitDialogue) endLine() {
	if d.heard.bytes == 0 {
		return
	}
	if len(d.lines) > 0 {
		d.lines = append(d.lines, ',')
	}
	d.lines = fmt.Appendf(d.lines, `{"speaker":1,"start":"%s","end":"%s","text":%s}`,
		d.times.clock(d.times.from), d.times.clock(d.times.heard), quote(d.heard.words()))
	d.next()
}

func (d *whisperLiveKitDialogue) state(v *voice, r role, buffer string) {
	v.text(r, `{"status":"active_transcription","lines":[%s],"buffer_transcription":%s,"buffer_diarization":"","remaining_time_transcription":0}`,
		d.lines, quote(buffer))
}
