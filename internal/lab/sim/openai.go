package sim

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// openAIDialogue is a connection to OpenAI's Realtime API, simulated from its documents and the models of its SDK, as far as
// transcription needs it, and one step further: a response is made of the whole conversation. Audio is gathered until it is committed;
// then it becomes an item of the conversation, which belongs to the connection, and is transcribed. If the client asks for it
// (turn_detection), the server finds turns by voice, and commits them itself. (The real service does so by default.) No event begins
// another conversation; the client closes.
type openAIDialogue struct {
	session  openAISession
	prompt   string // of the transcription
	vad      bool   // the server finds turns
	speaking bool   // it has found the beginning of one
	recognition
	items     int
	responses int
	history   string // the transcripts of all items
	dice      *rand.Rand
	cause     string // event_id of the client's event under way
}

// openAISession is what the server says of a session.
type openAISession struct {
	Type    string      `json:"type"`
	Object  string      `json:"object"`
	ID      string      `json:"id"`
	Model   string      `json:"model,omitempty"`
	Expires int64       `json:"expires_at"`
	Audio   openAIAudio `json:"audio"`
}

type openAIAudio struct {
	Input struct {
		Format        json.RawMessage      `json:"format,omitempty"`
		Turns         json.RawMessage      `json:"turn_detection,omitempty"`
		Transcription *openAITranscription `json:"transcription"`
	} `json:"input"`
}

type openAITranscription struct {
	Model    string `json:"model,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
	Language string `json:"language,omitempty"`
}

func newOpenAIDialogue(query url.Values) *openAIDialogue {
	d := &openAIDialogue{recognition: newRecognition("", 24000)}
	d.session.Type, d.session.Object, d.session.Model = "realtime", "realtime.session", query.Get("model")
	if query.Get("intent") == "transcription" {
		d.session.Type, d.session.Object, d.session.Model = "transcription", "realtime.transcription_session", ""
	}
	d.session.Audio.Input.Format = json.RawMessage(`{"type":"audio/pcm","rate":24000}`)
	return d
}

func (d *openAIDialogue) greet(v *voice) {
	d.dice = v.dice
	d.session.ID = fmt.Sprintf("sess_%016x", v.dice.Uint64())
	d.session.Expires = time.Now().Add(time.Hour).Unix()
	d.tell(v, opening, "session.created")
}

// tell says an event that shows the session.
func (d *openAIDialogue) tell(v *voice, r role, event string) {
	v.text(r, `{"type":"%s","event_id":"%s","session":%s}`, event, d.event(), inJSON(d.session))
}

func (d *openAIDialogue) event() string {
	return fmt.Sprintf("event_%016x", d.dice.Uint64())
}

// openAIEvent is what a client says.
type openAIEvent struct {
	Type    string `json:"type"`
	ID      string `json:"event_id"`
	Audio   string `json:"audio"`
	Session struct {
		Type          string               `json:"type"`
		Audio         openAIAudio          `json:"audio"`
		Transcription *openAITranscription `json:"input_audio_transcription"` // as before the API's general availability
	} `json:"session"`
}

func (d *openAIDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said openAIEvent
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.fail(v, "invalid_json", "Could not parse the event: it must be a text message with JSON.")
		return
	}
	d.cause = said.ID
	switch said.Type {
	case "session.update", "transcription_session.update":
		d.update(&said)
		d.tell(v, remark, said.Type+"d")
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(said.Audio)
		if err != nil {
			d.fail(v, "invalid_value", "Invalid audio: not base64.")
			return
		}
		if d.vad {
			d.utterances(audio, func(ends bool) { d.turn(v, ends) })
		} else {
			d.listen(audio)
		}
	case "input_audio_buffer.clear":
		d.clear(v)
	case "input_audio_buffer.commit":
		d.commit(v)
	case "response.create":
		d.respond(v)
	default:
		d.fail(v, "invalid_value", "Invalid value: "+said.Type)
	}
}

// clear forgets the audio that was not committed.
func (d *openAIDialogue) clear(v *voice) {
	d.heard.clear()
	d.times.next()
	v.text(remark, `{"type":"input_audio_buffer.cleared","event_id":"%s"}`, d.event())
}

// update takes over settings of the session.
func (d *openAIDialogue) update(said *openAIEvent) {
	input := &d.session.Audio.Input
	if format := said.Session.Audio.Input.Format; format != nil {
		input.Format = format
		var named struct {
			Type string `json:"type"`
			Rate int    `json:"rate"`
		}
		if json.Unmarshal(format, &named) == nil && d.times.heard == 0 {
			d.times = newTimeline(named.Type, cmp.Or(named.Rate, openAIRates[named.Type], 24000))
		}
	}
	if turns := said.Session.Audio.Input.Turns; turns != nil {
		input.Turns = turns
		d.vad = string(turns) != "null"
	}
	for _, t := range []*openAITranscription{said.Session.Transcription, said.Session.Audio.Input.Transcription} {
		if t != nil {
			input.Transcription = t
			d.prompt = t.Prompt
		}
	}
}

// openAIRates are the rates of formats that have only one.
var openAIRates = map[string]int{"audio/pcmu": 8000, "audio/pcma": 8000}

// turn says that a turn has begun, if one has, and that it has ended.
func (d *openAIDialogue) turn(v *voice, ends bool) {
	item := fmt.Sprintf("item_%d", d.items+1)
	if !d.speaking && len(d.heard.runs) > 0 {
		d.speaking = true
		v.text(remark, `{"type":"input_audio_buffer.speech_started","event_id":"%s","audio_start_ms":%d,"item_id":"%s"}`,
			d.event(), d.times.ms(d.times.from), item)
	}
	if ends {
		d.speaking = false
		v.text(remark, `{"type":"input_audio_buffer.speech_stopped","event_id":"%s","audio_end_ms":%d,"item_id":"%s"}`,
			d.event(), d.times.ms(d.times.heard), item)
		d.commit(v)
	}
}

// commit makes an item of the audio.
func (d *openAIDialogue) commit(v *voice) {
	if d.heard.bytes == 0 {
		d.fail(v, "input_audio_buffer_commit_empty", "Error committing input audio buffer: buffer too small.")
		return
	}
	previous := "null"
	if d.items > 0 {
		previous = fmt.Sprintf(`"item_%d"`, d.items)
	}
	d.items++
	id, words, seconds := fmt.Sprintf("item_%d", d.items), beside(d.heard.words(), d.prompt), d.times.duration()
	d.next() // also in the middle of a block
	d.committed(v, previous, id, "conversation.item.added", "conversation.item.done")
	d.delta(v, id, words)
	d.completed(v, id, words, seconds)
	d.remember(words)
}

// remember keeps what was said for responses.
func (d *openAIDialogue) remember(words string) {
	if len(d.history)+len(words) < 64<<10 { // a model's context has an end, too
		d.history += words + " "
	}
}

// committed says that an item has come after the previous one, whose id is in JSON, with events that show it.
func (d *openAIDialogue) committed(v *voice, previous, id string, events ...string) {
	v.text(remark, `{"type":"input_audio_buffer.committed","event_id":"%s","previous_item_id":%s,"item_id":"%s"}`, d.event(), previous, id)
	for _, event := range events {
		v.text(remark, `{"type":"%s","event_id":"%s","previous_item_id":%s,"item":{"id":"%s","type":"message","object":"realtime.item",`+
			`"status":"completed","role":"user","content":[{"type":"input_audio","transcript":null}]}}`, event, d.event(), previous, id)
	}
}

func (d *openAIDialogue) delta(v *voice, id, words string) {
	v.text(partial, `{"type":"conversation.item.input_audio_transcription.delta","event_id":"%s","item_id":"%s","content_index":0,"delta":%s}`,
		d.event(), id, quote(words))
}

func (d *openAIDialogue) completed(v *voice, id, words string, seconds float64) {
	v.text(last, `{"type":"conversation.item.input_audio_transcription.completed","event_id":"%s","item_id":"%s","content_index":0,"transcript":%s,`+
		`"usage":{"type":"duration","seconds":%g}}`, d.event(), id, quote(words), seconds)
}

// respond makes a response of the conversation.
func (d *openAIDialogue) respond(v *voice) {
	d.responses++
	id, text := fmt.Sprintf("resp_%d", d.responses), quote(d.history)
	item := fmt.Sprintf("item_r%d", d.responses)
	v.text(remark, `{"type":"response.created","event_id":"%s","response":{"object":"realtime.response","id":"%s","status":"in_progress","output":[]}}`,
		d.event(), id)
	v.text(final, `{"type":"response.output_text.done","event_id":"%s","response_id":"%s","item_id":"%s","output_index":0,"content_index":0,"text":%s}`,
		d.event(), id, item, text)
	v.text(last, `{"type":"response.done","event_id":"%s","response":{"object":"realtime.response","id":"%s","status":"completed","output":`+
		`[{"id":"%s","type":"message","object":"realtime.item","status":"completed","role":"assistant","content":[{"type":"output_text","text":%s}]}]}}`,
		d.event(), id, item, text)
}

func (d *openAIDialogue) fail(v *voice, code, reason string) {
	openAIFails(v, d.event(), code, reason, d.cause)
}

// openAIFails says that something went wrong, with the id of the client's event that caused it, if that has one.
func openAIFails(v *voice, event, code, reason, cause string) {
	id := []byte("null")
	if cause != "" {
		id = quote(cause)
	}
	v.text(remark, `{"type":"error","event_id":"%s","error":{"type":"invalid_request_error","code":"%s","message":%s,"param":null,"event_id":%s}}`,
		event, code, quote(reason), id)
}

// expire ends a connection at its age, as has been seen of the service.
func (d *openAIDialogue) expire(v *voice) {
	const reason = "Your session hit the maximum duration of 60 minutes."
	openAIFails(v, d.event(), "session_expired", reason, "")
	v.end(frame.GoingAway, reason)
}

const openAIBadKey = "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys."

// openAIAuth takes keys as "Bearer KEY"; browsers offer "realtime" and, behind a prefix, the key as subprotocols. The service accepts
// the upgrade before it looks: an error event is all that it says then, and it closes with 3000.
var openAIAuth = &keyAuth{
	subprotocols: []string{"realtime"},
	key: func(r *http.Request) string {
		key := scheme(r, "Bearer")
		for _, offer := range offered(r) {
			if secret, ok := strings.CutPrefix(offer, "openai-insecure-api-key."); ok {
				key = cmp.Or(key, secret)
			}
		}
		return key
	},
	unauthorized: `{"error":{"message":"` + openAIBadKey + `","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
	header:       func(id, _ string) map[string]string { return map[string]string{"x-request-id": id} },
	message: func(v *voice, _ bool) {
		openAIFails(v, "event_1", "invalid_api_key", openAIBadKey, "")
		v.end(3000, "invalid_request_error.invalid_api_key")
	},
}
