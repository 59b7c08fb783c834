package sim

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Durations of a message of audio that AssemblyAI takes, in bytes of 16 kHz in 16 bits: 50 ms to 1 s.
const (
	assemblyAILeast = 1600
	assemblyAIMost  = 32000
)

// assemblyAIDialogue is a connection to AssemblyAI's Universal Streaming, /v3/ws, simulated from its documents: Begin at connect,
// a Turn for each result, Terminate is answered with Termination, and the server closes. Close codes: 1008 for too many
// sessions, 3007 for audio that is too short or too long.
type assemblyAIDialogue struct {
	keyterms string
	turn     int
	heard    hearing
}

func newAssemblyAIDialogue(query url.Values) *assemblyAIDialogue {
	return &assemblyAIDialogue{keyterms: strings.Join(query["keyterms_prompt"], " ")}
}

func (d *assemblyAIDialogue) greet(v *voice) {
	if !v.place() {
		v.end(frame.PolicyViolation, "Too many concurrent sessions")
		return
	}
	v.text(opening, `{"type":"Begin","id":"%016x","expires_at":1767225600}`, v.dice.Uint64())
}

func (d *assemblyAIDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if len(message) < assemblyAILeast || len(message) > assemblyAIMost {
			v.end(3007, "Input Duration Violation: allowed are 50 to 1000 ms")
			return
		}
		d.heard.listen(message)
		d.say(v, d.heard.pause)
		return
	}
	var said struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(message, &said) != nil {
		v.end(3006, "Invalid JSON")
		return
	}
	switch said.Type {
	case "ForceEndpoint":
		d.say(v, true)
	case "UpdateConfiguration":
	case "Terminate":
		if d.heard.bytes > 0 {
			d.say(v, true)
		}
		v.text(last, `{"type":"Termination","audio_duration_seconds":1,"session_duration_seconds":1}`)
		v.end(frame.NormalClosure, "")
	default:
		v.end(3006, "Invalid Message Type: "+said.Type)
	}
}

func (d *assemblyAIDialogue) say(v *voice, ends bool) {
	r, words, turn := partial, d.heard.words(), d.turn
	if d.keyterms != "" {
		words += " " + d.keyterms
	}
	if ends {
		r = final
		d.heard.next()
		d.turn++
	}
	v.text(r, `{"type":"Turn","turn_order":%d,"turn_is_formatted":false,"end_of_turn":%t,"transcript":%s,"words":[]}`, turn, ends, quote(words))
}
