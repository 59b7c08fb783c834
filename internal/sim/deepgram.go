package sim

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// deepgramDialogue is a connection to Deepgram's /v1/listen, simulated from its documents (developers.deepgram.com, Live Audio).
// Everything is set in the URL. CloseStream, or an empty binary message, is answered with what is left and Metadata, and the server
// closes. Without audio or KeepAlive for 10 s it closes with 1011.
type deepgramDialogue struct {
	keyterms string
	heard    hearing
}

func newDeepgramDialogue(query url.Values) *deepgramDialogue {
	return &deepgramDialogue{keyterms: strings.Join(query["keyterm"], " ")}
}

func (d *deepgramDialogue) greet(*voice) {}

func (d *deepgramDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	said := struct {
		Type string `json:"type"`
	}{Type: "CloseStream"} // which an empty binary message is, too
	if kind == frame.Binary && len(message) > 0 {
		d.heard.listen(message)
		d.results(v, d.heard.pause, false)
		return
	}
	if kind == frame.Text && json.Unmarshal(message, &said) != nil {
		v.end(frame.PolicyViolation, "DATA-0000")
		return
	}
	switch said.Type {
	case "KeepAlive":
	case "Finalize":
		d.results(v, true, true)
	case "CloseStream":
		d.results(v, true, false)
		v.text(last, `{"type":"Metadata","transaction_key":"deprecated","request_id":"simulated","duration":1.0,"channels":1}`)
		v.end(frame.NormalClosure, "")
	default:
		v.text(remark, `{"type":"Error","description":"unknown message type"}`)
	}
}

func (d *deepgramDialogue) results(v *voice, isFinal, finalized bool) {
	r, words := partial, d.heard.words()
	if d.keyterms != "" {
		words += " " + d.keyterms
	}
	if isFinal {
		r = final
		d.heard.next()
	}
	v.text(r, `{"type":"Results","channel_index":[0,1],"duration":1.0,"start":0.0,"is_final":%t,"speech_final":%t,`+
		`"channel":{"alternatives":[{"transcript":%s,"confidence":1.0,"words":[]}]},"from_finalize":%t}`,
		isFinal, isFinal && !finalized, quote(words), finalized)
}

func (d *deepgramDialogue) silent(v *voice) {
	v.end(frame.InternalError, "NET-0001: did not receive audio data or a text message within the timeout window")
}
