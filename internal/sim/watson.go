package sim

import (
	"encoding/json"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// watsonDialogue is a connection to IBM Watson Speech to Text, /v1/recognize, simulated from its documents ("The WebSocket
// interface"): start and stop are each acknowledged by {"state":"listening"}, the latter behind the final results. Parameters of
// a start hold for later ones that do not set them.
type watsonDialogue struct {
	started  bool
	keywords []string
	heard    hearing
	results  int
}

const watsonListening = `{"state": "listening"}`

func (d *watsonDialogue) greet(*voice) {}

func (d *watsonDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary && len(message) > 0 {
		if !d.started {
			d.fail(v, "audio before start")
			return
		}
		d.heard.listen(message)
		d.result(v, d.heard.pause)
		return
	}
	said := struct {
		Action   string   `json:"action"`
		Keywords []string `json:"keywords"`
	}{Action: "stop"} // which an empty binary message is, too
	if kind == frame.Text && json.Unmarshal(message, &said) != nil {
		d.fail(v, "unable to parse the message")
		return
	}
	switch {
	case said.Action == "start" && !d.started:
		d.started = true
		if said.Keywords != nil {
			d.keywords = said.Keywords
		}
		v.text(opening, watsonListening)
	case said.Action == "stop" && d.started:
		if v.hit(v.nasty.ResetIgnored) {
			return
		}
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		v.text(last, watsonListening)
		d.heard.clear()
		d.started, d.results = false, 0
	case said.Action == "no-op":
	default:
		d.fail(v, "action "+said.Action+" does not fit")
	}
}

// result gives a result: a final one, or one that may change.
func (d *watsonDialogue) result(v *voice, ends bool) {
	r := partial
	if ends {
		r = final
	}
	keywords := quote(strings.Join(d.keywords, " "))
	v.text(r, `{"result_index": %d, "results": [{"final": %t, "alternatives": [{"transcript": %s}], "keywords_result": {%s: []}}]}`,
		d.results, ends, quote(d.heard.words()), keywords)
	if ends {
		d.heard.next()
		d.results++
	}
}

func (d *watsonDialogue) fail(v *voice, reason string) {
	v.text(remark, `{"error": %s}`, quote(reason))
	v.end(frame.InternalError, "")
}

func (d *watsonDialogue) silent(v *voice) {
	d.fail(v, "Session timed out due to inactivity after 30 seconds.")
}
