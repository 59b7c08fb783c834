package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// How much text is enough to speak, in characters, without and with try_trigger_generation, and how many contexts a connection has at most.
const (
	elevenLabsDefault  = 120
	elevenLabsTrigger  = 50
	elevenLabsContexts = 5
)

// elevenLabs is what ElevenLabs' text to speech says, /v1/text-to-speech/VOICE/multi-stream-input and stream-input, simulated from its
// documents and its SDK (elevenlabs 2.78). With several contexts, each message names one, its first begins it with settings, close_context
// ends it, and close_socket the connection. Without, an empty text ends the connection. The service begins to speak when it has enough text,
// by chunk_length_schedule, or by flush; what was not spoken when a context is closed is lost. An error message comes before each other
// close.
type elevenLabs struct {
	several bool
	format  timeline
}

func newElevenLabs(r *http.Request) *elevenLabs {
	format := cmp.Or(r.URL.Query().Get("output_format"), "mp3_44100_128")
	e := &elevenLabs{several: !strings.HasSuffix(r.URL.Path, "/stream-input")}
	switch parts := strings.Split(format, "_"); parts[0] {
	case "pcm":
		e.format = newTimeline("pcm_s16le", number(parts[1]))
	case "ulaw", "alaw":
		e.format = newTimeline("mulaw", number(parts[1]))
	default: // compressed: the last part is kilobits a second
		e.format = timeline{perSecond: max(1, number(parts[len(parts)-1])) * 125}
	}
	return e
}

func (e *elevenLabs) read(v *voice, message []byte) (said contextMessage, ok bool) {
	var m struct {
		Text    *string `json:"text"`
		Context string  `json:"context_id"`
		Flush   bool    `json:"flush"`
		Trigger bool    `json:"try_trigger_generation"`
		Close   bool    `json:"close_context"`
		Socket  bool    `json:"close_socket"`
		Config  struct {
			Schedule []int `json:"chunk_length_schedule"`
		} `json:"generation_config"`
		Dictionaries []struct {
			ID string `json:"pronunciation_dictionary_id"`
		} `json:"pronunciation_dictionary_locators"`
	}
	if json.Unmarshal(message, &m) != nil {
		elevenLabsFails(v, "invalid_message", "Message is not valid JSON")
		return said, false
	}
	said = contextMessage{id: m.Context, format: e.format, flush: m.Flush, cancel: m.Close, close: m.Socket}
	if len(m.Config.Schedule) > 0 {
		said.least = m.Config.Schedule[0]
	}
	for _, d := range m.Dictionaries {
		said.settings = beside(said.settings, d.ID)
	}
	if m.Text != nil && !m.Close {
		said.text = *m.Text
		if !e.several && said.text == "" {
			said.end, said.close = true, true
		}
	}
	if m.Trigger {
		said.least = elevenLabsTrigger
	}
	return said, true
}

// elevenLabsAlignment tells when each character is spoken.
type elevenLabsAlignment struct {
	Starts    []int    `json:"charStartTimesMs"`
	Durations []int    `json:"charDurationsMs"`
	Chars     []string `json:"chars"`
}

func (e *elevenLabs) spoken(v *voice, c *speechContext, word string) {
	var a elevenLabsAlignment
	text := strings.Join(c.words(word), " ") + " "
	each := int(utterance/time.Millisecond) / len(text)
	for i := range len(text) {
		a.Starts, a.Durations, a.Chars = append(a.Starts, i*each), append(a.Durations, each), append(a.Chars, text[i:i+1])
	}
	alignment := inJSON(a)
	v.text(final, `{"audio":"%s","isFinal":null,"normalizedAlignment":%s,"alignment":%[2]s%s}`, c.audio(word), alignment, e.of(c))
}

func (*elevenLabs) flushed(*voice, *speechContext) {}

func (e *elevenLabs) done(v *voice, c *speechContext) {
	v.text(last, `{"audio":null,"isFinal":true,"normalizedAlignment":null,"alignment":null%s}`, e.of(c))
}

// of names the context of a message.
func (e *elevenLabs) of(c *speechContext) string {
	if !e.several {
		return ""
	}
	return `,"contextId":` + string(quote(cmp.Or(c.id, "default")))
}

func (*elevenLabs) full(v *voice, _ string, contexts int) {
	elevenLabsFails(v, "max_active_conversations",
		fmt.Sprintf("Maximum simultaneous contexts per WebSocket connection exceeded (%d). Please close an existing context before opening a new one.", contexts))
}

func (*elevenLabs) silent(v *voice) {
	elevenLabsFails(v, "input_timeout_exceeded", "Have not received a new text input within the timeout of 20.0 seconds. Streaming input terminated.")
}

// elevenLabsFails ends the connection with an error.
func elevenLabsFails(v *voice, code, message string) {
	v.text(remark, `{"message":"%s","error":"%s","code":1008}`, message, code)
	v.end(frame.PolicyViolation, message[:min(len(message), 123)])
}

// elevenLabsAuth takes keys in xi-api-key. The service accepts the upgrade before it looks at the key.
var elevenLabsAuth = &keyAuth{
	key:          func(r *http.Request) string { return r.Header.Get("Xi-Api-Key") },
	unauthorized: `{"detail":{"status":"invalid_api_key","message":"Invalid API key"}}`,
	message:      func(v *voice, _ bool) { elevenLabsFails(v, "invalid_api_key", "Invalid API key") },
}
