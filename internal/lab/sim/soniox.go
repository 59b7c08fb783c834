package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sonioxDialogue is a connection to Soniox' real-time service, /transcribe-websocket, simulated from its documents: the first message
// has the settings and gets no answer. A message of audio is answered with the tokens that have become final, each once, and behind
// them those that may still change. Tokens become final where the speaker pauses, and by finalize, which the token <fin> confirms. An
// empty message is answered with the last tokens and "finished": true, and the server closes. Before any other close, an error message
// has an HTTP status. The documents do not tell close codes: 1000 here. Audio in text messages, as base64, is not simulated.
type sonioxDialogue struct {
	started   bool
	endpoints bool // the token <end> tells where the speaker paused
	terms     string
	recognition
}

// sonioxMessage is what a client says in text.
type sonioxMessage struct {
	Type      string `json:"type"`
	Model     string `json:"model"`
	Format    string `json:"audio_format"`
	Rate      int    `json:"sample_rate"`
	Channels  int    `json:"num_channels"`
	Endpoints bool   `json:"enable_endpoint_detection"`
	Context   struct {
		Terms []string `json:"terms"`
	} `json:"context"`
}

// sonioxToken is a token of a transcript. Its times are in milliseconds; those that mark something have none.
type sonioxToken struct {
	Text       string  `json:"text"`
	Start      *int    `json:"start_ms,omitempty"`
	End        *int    `json:"end_ms,omitempty"`
	Confidence float64 `json:"confidence"`
	Final      bool    `json:"is_final"`
}

func (d *sonioxDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said sonioxMessage
	switch {
	case !d.started && kind != frame.Text:
		sonioxFails(v, http.StatusBadRequest, "Start request must be a text message.")
	case !d.started && json.Unmarshal(message, &said) != nil:
		sonioxFails(v, http.StatusBadRequest, "Start request is malformed.")
	case !d.started:
		d.start(v, &said)
	case len(message) == 0:
		if tokens := d.finalize(); len(tokens) > 0 {
			d.answer(v, tokens)
		}
		v.text(last, `{"tokens":[],"final_audio_proc_ms":%d,"total_audio_proc_ms":%[1]d,"finished":true}`, d.times.ms(d.times.heard))
		v.end(frame.NormalClosure, "")
	case kind == frame.Binary:
		var tokens []sonioxToken
		d.utterances(message, func(ends bool) {
			switch {
			case !ends:
				tokens = append(tokens, d.tokens(false)...)
			case d.endpoints:
				tokens = append(append(tokens, d.finalize()...), sonioxMark("<end>"))
			default:
				tokens = append(tokens, d.finalize()...)
			}
		})
		d.answer(v, tokens)
	case json.Unmarshal(message, &said) != nil:
		sonioxFails(v, http.StatusBadRequest, "Control request is malformed.")
	case said.Type == "finalize":
		d.answer(v, append(d.finalize(), sonioxMark("<fin>")))
	case said.Type == "keepalive":
	default:
		sonioxFails(v, http.StatusBadRequest, "Control request invalid type.")
	}
}

// start takes the first message.
func (d *sonioxDialogue) start(v *voice, said *sonioxMessage) {
	raw := said.Format != "auto"
	switch {
	case said.Model == "":
		sonioxFails(v, http.StatusBadRequest, "Invalid model specified.")
	case said.Format == "":
		sonioxFails(v, http.StatusBadRequest, `Missing audio format. Specify a valid audio format (e.g. s16le, f32le, wav, ogg, flac...) or "auto" for auto format detection.`)
	case raw && said.Rate == 0:
		sonioxFails(v, http.StatusBadRequest, "Audio data sample rate must be specified for PCM formats")
	case raw && said.Channels == 0:
		sonioxFails(v, http.StatusBadRequest, "Audio data channels must be specified for PCM formats")
	case !v.place():
		sonioxFails(v, http.StatusTooManyRequests, "Your organization has exceeded max number of concurrent requests.")
	default:
		d.started, d.endpoints = true, said.Endpoints
		d.times = newTimeline(said.Format, max(1, said.Channels)*said.Rate)
		for _, term := range said.Context.Terms {
			d.terms += " " + term
		}
	}
}

// tokens returns the words of the utterance under way, a token each.
func (d *sonioxDialogue) tokens(final bool) (tokens []sonioxToken) {
	for i, w := range d.times.words(d.heard.words() + d.terms) {
		if i > 0 || d.times.from > 0 {
			w.text = " " + w.text
		}
		tokens = append(tokens, sonioxToken{w.text, new(inMilliseconds(w.start)), new(inMilliseconds(w.end)), 1, final})
	}
	return tokens
}

// finalize ends the utterance under way and returns its tokens; none if nothing was heard since the last one.
func (d *sonioxDialogue) finalize() (tokens []sonioxToken) {
	if d.heard.bytes > 0 {
		tokens = d.tokens(true)
		d.next()
	}
	return tokens
}

// sonioxMark returns a token that stands for no word.
func sonioxMark(text string) sonioxToken { return sonioxToken{Text: text, Confidence: 1, Final: true} }

// answer says tokens: first the final ones.
func (d *sonioxDialogue) answer(v *voice, tokens []sonioxToken) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // for <fin>
	_ = encoder.Encode(tokens)   // never fails
	v.text(resultRole(tokens[0].Final), `{"tokens":%s,"final_audio_proc_ms":%d,"total_audio_proc_ms":%d}`, bytes.TrimSpace(encoded.Bytes()), d.times.ms(d.times.from), d.times.ms(d.times.heard))
}

func (d *sonioxDialogue) silent(v *voice) {
	sonioxFails(v, http.StatusRequestTimeout, "Request timeout.")
}

// expire ends a session early. What the service says at its limit is not known.
func (d *sonioxDialogue) expire(v *voice) {
	sonioxFails(v, http.StatusServiceUnavailable, "Cannot continue request (code 1). Please restart the request.")
}

// sonioxFails ends a session with an error.
func sonioxFails(v *voice, status int, reason string) {
	v.text(remark, `{"tokens":[],"error_code":%d,"error_message":%s}`, status, quote(reason))
	v.end(frame.NormalClosure, "")
}

// sonioxAuth takes keys as "Bearer KEY", or behind the subprotocol that browsers offer. The key in the first message, which the service
// accepts until 15 January 2027, is not enough here. The documents do not tell how a bad key is refused: by HTTP status here.
var sonioxAuth = &keyAuth{
	subprotocols: []string{"soniox-api-key"},
	key: func(r *http.Request) string {
		var key string
		if offers := offered(r); len(offers) == 2 && offers[0] == "soniox-api-key" {
			key = offers[1]
		}
		return cmp.Or(scheme(r, "Bearer"), key)
	},
	unauthorized: `{"error_code":401,"error_message":"Invalid API key."}`,
}
