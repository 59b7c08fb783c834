package sim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// deepgramDialogue is a connection to Deepgram's /v1/listen, simulated from its documents (developers.deepgram.com, Live Audio) and
// the models of its SDK. Everything is set in the URL, and key terms by Configure as well. CloseStream, or an empty binary message, is
// answered with what is left and Metadata, and the server closes. Without audio or KeepAlive for 10 s it closes with 1011. Unlike the
// real service, it gives interim results unless the client says interim_results=false.
type deepgramDialogue struct {
	keyterms string
	interim  bool
	model    string
	channels int
	request  string // its id
	recognition
}

func newDeepgramDialogue(query url.Values) *deepgramDialogue {
	channels := max(1, number(query.Get("channels")))
	return &deepgramDialogue{
		keyterms:    strings.Join(query["keyterm"], " "),
		interim:     query.Get("interim_results") != "false",
		model:       cmp.Or(query.Get("model"), "base"),
		channels:    channels,
		recognition: newRecognition(query.Get("encoding"), channels*number(query.Get("sample_rate"))),
	}
}

func (d *deepgramDialogue) greet(v *voice) { d.request = uuid(v.dice) }

func (d *deepgramDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	said := struct {
		Type     string    `json:"type"`
		Keyterms *[]string `json:"keyterms"`
	}{Type: "CloseStream"} // which an empty binary message is, too
	if kind == frame.Binary && len(message) > 0 {
		d.utterances(message, func(ends bool) {
			if ends || d.interim {
				d.results(v, ends, false)
			}
		})
		return
	}
	if kind == frame.Text && json.Unmarshal(message, &said) != nil {
		v.end(frame.PolicyViolation, "DATA-0000")
		return
	}
	switch said.Type {
	case "KeepAlive":
	case "Configure":
		if said.Keyterms != nil {
			d.keyterms = strings.Join(*said.Keyterms, " ")
		}
		v.text(remark, `{"type":"ConfigureSuccess","request_id":"%s"}`, d.request)
	case "Finalize":
		d.results(v, true, true)
	case "CloseStream":
		d.results(v, true, false)
		v.text(last, `{"type":"Metadata","transaction_key":"deprecated","request_id":"%s","sha256":"%064d","created":"%s","duration":%g,"channels":%d}`,
			d.request, 0, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), d.times.end(), d.channels)
		v.end(frame.NormalClosure, "")
	default:
		v.text(remark, `{"type":"Error","variant":"SchemaError","description":"Could not deserialize last text message: unknown variant %s",`+
			`"message":%s}`, strings.Trim(string(quote(said.Type)), `"`), quote(string(message)))
	}
}

// deepgramWord is a word of a result.
type deepgramWord struct {
	Word       string  `json:"word"`
	Start      float64 `json:"start"`
	End        float64 `json:"end"`
	Confidence float64 `json:"confidence"`
}

func (d *deepgramDialogue) results(v *voice, isFinal, finalized bool) {
	words := beside(d.heard.words(), d.keyterms)
	timed := timedJSON(&d.times, words, func(w timedWord) deepgramWord { return deepgramWord{w.text, w.start, w.end, 1} })
	start, duration := d.times.start(), d.times.duration()
	if isFinal {
		d.next()
	}
	v.text(resultRole(isFinal), `{"type":"Results","channel_index":[0,%d],"duration":%g,"start":%g,"is_final":%t,"speech_final":%t,`+
		`"channel":{"alternatives":[{"transcript":%s,"confidence":1.0,"words":%s}]},`+
		`"metadata":{"request_id":"%s","model_info":{"name":%s,"version":"simulated","arch":"simulated"},"model_uuid":"%032d"},"from_finalize":%t}`,
		d.channels, duration, start, isFinal, isFinal && !finalized, quote(words), timed, d.request, quote(d.model), 0, finalized)
}

func (d *deepgramDialogue) silent(v *voice) {
	v.end(frame.InternalError, "NET-0001: did not receive audio data or a text message within the timeout window")
}

// deepgramAuth takes keys as "Token KEY", and tokens that live for a short time as "Bearer TOKEN"; browsers offer "token" and the key
// behind it as subprotocols. Both are the same here. The error is in the header as well (the changelog of 8 November 2022).
var deepgramAuth = &keyAuth{
	subprotocols: []string{"token", "bearer"},
	key: func(r *http.Request) string {
		key := cmp.Or(scheme(r, "Token"), scheme(r, "Bearer"))
		if offers := offered(r); key == "" && len(offers) == 2 && (offers[0] == "token" || offers[0] == "bearer") {
			key = offers[1]
		}
		return key
	},
	unauthorized: `{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials.","request_id":"$ID"}`,
	header: func(id, body string) map[string]string {
		return map[string]string{"dg-error": body, "dg-request-id": id}
	},
}
