package sim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// cartesia is what Cartesia's text to speech says, /tts/websocket, simulated from its documents and the models of its SDK (cartesia 4.2):
// each request names its context and how it is to be spoken. "continue": true tells that more of the context follows, and flush that it is
// to be spoken now, which flush_done confirms; a context ends with done. Errors are of a context too, and leave the connection open. Unlike
// the real service, which may wait for more text for as long as max_buffer_delay_ms, whole words are spoken immediately.
type cartesia struct{}

func (cartesia) read(v *voice, message []byte) (said contextMessage, ok bool) {
	var m struct {
		Context    string `json:"context_id"`
		Cancel     bool   `json:"cancel"`
		Transcript string `json:"transcript"`
		Model      string `json:"model_id"`
		Continue   bool   `json:"continue"`
		Flush      bool   `json:"flush"`
		Timestamps bool   `json:"add_timestamps"`
		Dictionary string `json:"pronunciation_dict_id"`
		Format     struct {
			Encoding string `json:"encoding"`
			Rate     int    `json:"sample_rate"`
		} `json:"output_format"`
	}
	switch err := json.Unmarshal(message, &m); {
	case err != nil:
		cartesiaFails(v, "", 400, "invalid_json", "Invalid JSON", "The message is not a JSON object.")
	case m.Context == "":
		cartesiaFails(v, "", 400, "context_id_missing", "Missing context", "The request has no context_id.")
	case !m.Cancel && m.Model == "":
		cartesiaFails(v, m.Context, 400, "model_id_missing", "Missing model", "The request has no model_id.")
	default:
		encoding := cmp.Or(m.Format.Encoding, "pcm_f32le")
		return contextMessage{
			id: m.Context, text: m.Transcript, settings: m.Dictionary, timed: m.Timestamps, flush: m.Flush && m.Continue, cancel: m.Cancel,
			end: !m.Cancel && !m.Continue, format: newTimeline(encoding, cmp.Or(m.Format.Rate, 44100)), floats: encoding == "pcm_f32le",
		}, true
	}
	return said, false
}

func (cartesia) spoken(v *voice, c *speechContext, word string) {
	flush := ""
	if c.flushes > 0 {
		flush = `"flush_id":` + string(inJSON(c.flushes+1)) + ","
	}
	v.text(final, `{"type":"chunk","data":"%s","done":false,"status_code":206,"step_time":12.5,%s"context_id":%s}`,
		c.audio(word), flush, quote(c.id))
	if !c.timed {
		return
	}
	words := c.words(word)
	starts, ends := make([]float64, len(words)), make([]float64, len(words))
	for i := range words {
		starts[i], ends[i] = c.format.end(), c.format.at(c.format.heard+c.format.bytes(utterance))
	}
	v.text(remark, `{"type":"timestamps","done":false,"status_code":206,%s"context_id":%s,"word_timestamps":{"words":%s,"start":%s,"end":%s}}`,
		flush, quote(c.id), inJSON(words), inJSON(starts), inJSON(ends))
}

func (cartesia) flushed(v *voice, c *speechContext) {
	v.text(remark, `{"type":"flush_done","done":false,"flush_done":true,"flush_id":%d,"status_code":206,"context_id":%s}`, c.flushes, quote(c.id))
}

func (cartesia) done(v *voice, c *speechContext) {
	v.text(last, `{"type":"done","done":true,"status_code":200,"context_id":%s}`, quote(c.id))
}

func (cartesia) full(v *voice, id string, _ int) {
	cartesiaFails(v, id, http.StatusTooManyRequests, "concurrency_limited", "Too many concurrent requests", "You have exceeded your plan's concurrency limit.")
}

// cartesiaFails says that a context has failed, or that the message has no context.
func cartesiaFails(v *voice, id string, status int, code, title, message string) {
	context := ""
	if id != "" {
		context = `,"context_id":` + string(quote(id))
	}
	v.text(remark, `{"type":"error","done":true,"status_code":%d,"error_code":"%s","title":"%s","message":"%s","request_id":"%s"%s}`,
		status, code, title, message, uuid(v.dice), context)
}

// cartesiaAuth takes keys as "Bearer KEY", in X-API-Key, or in the URL, as browsers have to.
var cartesiaAuth = &keyAuth{
	key: func(r *http.Request) string {
		query := r.URL.Query()
		return cmp.Or(scheme(r, "Bearer"), strings.TrimSpace(r.Header.Get("X-Api-Key")), query.Get("api_key"), query.Get("access_token"))
	},
	unauthorized: `{"error_code":"unauthorized","title":"Unauthorized","message":"Invalid API key.","request_id":"$ID"}`,
}
