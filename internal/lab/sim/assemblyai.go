package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Durations of a message of audio that AssemblyAI takes, in milliseconds.
const (
	assemblyAILeast = 50
	assemblyAIMost  = 1000
)

// assemblyAIDialogue is a connection to AssemblyAI's Universal Streaming, /v3/ws, simulated from its documents and the models of its
// SDK: Begin at connect, a Turn for each result, Terminate is answered with Termination, and the server closes. An Error message with
// the same code comes before each other close: 1008 for a bad key, 3009 for too many sessions, 3006 for a bad message, 3007 for audio
// that is too short or too long.
type assemblyAIDialogue struct {
	keyterms string
	model    string
	turn     int
	began    time.Time
	recognition
}

func newAssemblyAIDialogue(query url.Values) *assemblyAIDialogue {
	d := &assemblyAIDialogue{model: cmp.Or(query.Get("speech_model"), "universal-streaming-english"), recognition: newRecognition(query.Get("encoding"), number(query.Get("sample_rate")))}
	for _, terms := range query["keyterms_prompt"] {
		var list []string
		if json.Unmarshal([]byte(terms), &list) != nil { // the API reference has a list in JSON; one term is taken as it is
			list = []string{terms}
		}
		d.boost(list)
	}
	return d
}

func (d *assemblyAIDialogue) boost(terms []string) {
	d.keyterms = strings.TrimSpace(d.keyterms + " " + strings.Join(terms, " "))
}

func (d *assemblyAIDialogue) greet(v *voice) {
	if !v.place() {
		assemblyAIFails(v, 3009, "Too many concurrent sessions")
		return
	}
	d.began = time.Now()
	v.text(opening, `{"type":"Begin","id":"%s","expires_at":%d,"configuration":{"model":%s,"api_version":"2025-05-12"}}`,
		uuid(v.dice), d.began.Add(3*time.Hour).Unix(), quote(d.model))
}

// expire ends a connection at its age.
func (d *assemblyAIDialogue) expire(v *voice) {
	assemblyAIFails(v, 3008, "Session Expired: Maximum session duration exceeded")
}

func (d *assemblyAIDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if ms := 1000 * float64(len(message)) / float64(d.times.perSecond); ms < assemblyAILeast || ms > assemblyAIMost {
			assemblyAIFails(v, 3007, fmt.Sprintf("Input Duration Violation: %.1f ms. Expected between %d and %d ms", ms, assemblyAILeast, assemblyAIMost))
			return
		}
		d.utterances(message, func(ends bool) { d.say(v, ends) })
		return
	}
	var said struct {
		Type     string    `json:"type"`
		Keyterms *[]string `json:"keyterms_prompt"`
	}
	if json.Unmarshal(message, &said) != nil {
		assemblyAIFails(v, 3006, "Invalid JSON")
		return
	}
	switch said.Type {
	case "ForceEndpoint":
		d.say(v, true)
	case "UpdateConfiguration":
		if said.Keyterms != nil {
			d.keyterms = ""
			d.boost(*said.Keyterms)
		}
	case "KeepAlive":
	case "Terminate":
		if d.heard.bytes > 0 {
			d.say(v, true)
		}
		v.text(last, `{"type":"Termination","audio_duration_seconds":%d,"session_duration_seconds":%d}`,
			int(d.times.end()+0.5), int(time.Since(d.began).Seconds()+0.5))
		v.end(frame.NormalClosure, "")
	default:
		assemblyAIFails(v, 3006, "Invalid Message Type: "+said.Type)
	}
}

// assemblyAIWord is a word of a turn; its times are in milliseconds.
type assemblyAIWord struct {
	Text       string  `json:"text"`
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float64 `json:"confidence"`
	IsFinal    bool    `json:"word_is_final"`
}

func (d *assemblyAIDialogue) say(v *voice, ends bool) {
	r, words, turn, confidence := partial, beside(d.heard.words(), d.keyterms), d.turn, 0.1
	timed := timedJSON(&d.times, words, func(w timedWord) assemblyAIWord {
		return assemblyAIWord{w.text, inMilliseconds(w.start), inMilliseconds(w.end), 1, ends}
	})
	if ends {
		r, confidence = final, 0.9
		d.next()
		d.turn++
	}
	v.text(r, `{"type":"Turn","turn_order":%d,"turn_is_formatted":false,"end_of_turn":%t,"transcript":%s,"end_of_turn_confidence":%g,"words":%s}`,
		turn, ends, quote(words), confidence, timed)
}

// assemblyAIFails ends a session with an error.
func assemblyAIFails(v *voice, code frame.CloseCode, reason string) {
	v.text(remark, `{"type":"Error","error_code":%d,"error":%s}`, code, quote(reason))
	v.end(code, reason)
}

// assemblyAIAuth takes keys as they are, or tokens that live for a short time as ?token=; both are the same here. The service accepts
// the upgrade before it looks (AssemblyAI/assemblyai-node-sdk, issue 97, shows a client's view of it).
var assemblyAIAuth = &keyAuth{
	key:          func(r *http.Request) string { return cmp.Or(r.Header.Get("Authorization"), r.URL.Query().Get("token")) },
	unauthorized: `{"error":"Unauthorized"}`,
	message: func(v *voice, missing bool) {
		reason := "Unauthorized Connection: Invalid API key"
		if missing {
			reason = "Unauthorized Connection: Missing Authorization header"
		}
		assemblyAIFails(v, frame.PolicyViolation, reason)
	},
}
