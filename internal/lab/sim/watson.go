package sim

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// watsonDialogue is a connection to IBM Watson Speech to Text, /v1/recognize, simulated from its documents ("The WebSocket
// interface"): start and stop are each acknowledged by {"state":"listening"}, the latter behind the final results. Parameters of
// a start hold for later ones that do not set them. Without interim_results, the final results come together at the stop; without
// timestamps, there are no times, which count from the start.
type watsonDialogue struct {
	started    bool
	keywords   []string
	interim    bool
	timestamps bool
	encoding   string
	rate       int
	recognition
	results int
	finals  []string // that wait for the stop
}

const watsonListening = `{"state": "listening"}`

func (d *watsonDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary && len(message) > 0 {
		if !d.started {
			d.fail(v, "audio before start")
			return
		}
		d.utterances(message, func(ends bool) { d.result(v, ends) })
		return
	}
	said := struct {
		Action     string   `json:"action"`
		Keywords   []string `json:"keywords"`
		Type       string   `json:"content-type"`
		Interim    bool     `json:"interim_results"`
		Timestamps bool     `json:"timestamps"`
	}{Action: "stop", Interim: d.interim, Timestamps: d.timestamps} // which an empty binary message is, too
	if kind == frame.Text && json.Unmarshal(message, &said) != nil {
		d.fail(v, "unable to parse the message")
		return
	}
	switch {
	case said.Action == "start" && !d.started:
		d.started, d.interim, d.timestamps = true, said.Interim, said.Timestamps
		if said.Keywords != nil {
			d.keywords = said.Keywords
		}
		if kind, parameters, err := mime.ParseMediaType(said.Type); err == nil {
			d.encoding, d.rate = kind, number(parameters["rate"])*max(1, number(parameters["channels"]))
		}
		d.times = newTimeline(d.encoding, d.rate)
		v.text(opening, watsonListening)
	case said.Action == "stop" && d.started:
		if v.hit(v.nasty.ResetIgnored) {
			return
		}
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		if len(d.finals) > 0 {
			v.text(final, `{"result_index": 0, "results": [%s]}`, strings.Join(d.finals, ", "))
			d.finals = nil
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
	words, timestamps := d.heard.words(), ""
	if d.timestamps {
		list := timedJSON(&d.times, words, func(w timedWord) []any { return []any{w.text, w.start, w.end} })
		timestamps = fmt.Sprintf(`, "timestamps": %s`, list)
	}
	result := fmt.Sprintf(`{"final": %t, "alternatives": [{"transcript": %s%s}], "keywords_result": {%s: []}}`,
		ends, quote(words), timestamps, quote(strings.Join(d.keywords, " ")))
	if d.interim {
		v.text(resultRole(ends), `{"result_index": %d, "results": [%s]}`, d.results, result)
	} else if ends {
		d.finals = append(d.finals, result)
	}
	if ends {
		d.next()
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
