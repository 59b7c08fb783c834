package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// azureDialogue is a connection to Azure's speech recognition (/speech/recognition/...), as its SDK (azure-cognitiveservices-speech 1.53, Python)
// was seen to use it. Each message begins with fields as in HTTP, in a binary one behind their length; Path says what it is, and X-RequestId which
// turn it belongs to. A turn begins with speech.context, has the SDK's audio, a WAV file without an end, and ends with an audio message that is
// empty. Then the server says the last phrase and turn.end, and another turn may follow. Audio without a turn ends the connection with 1007.
type azureDialogue struct {
	turn  string // its id; empty for none
	terms string // of a list of phrases
	recognition
}

func (d *azureDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	fields, body := message, []byte(nil)
	if kind == frame.Binary {
		length := 0
		if len(message) >= 2 {
			length = 2 + int(binary.BigEndian.Uint16(message))
		}
		if length == 0 || length > len(message) {
			v.end(frame.InvalidPayload, "a header is missing")
			return
		}
		fields, body = message[2:length], message[length:]
	} else {
		fields, body, _ = bytes.Cut(message, []byte("\r\n\r\n"))
	}
	id := azureField(fields, "X-RequestId")
	switch path := azureField(fields, "Path"); {
	case path == "speech.context":
		d.begin(v, id, body)
	case path != "audio": // speech.config, telemetry
	case id == "" || id != d.turn:
		v.end(frame.InvalidPayload, "audio without a turn")
	case len(body) > 0:
		d.listen(v, body)
	case v.hit(v.nasty.ResetIgnored):
	default:
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		d.say(v, remark, "speech.endDetected", `{"Offset":%d}`, d.ticks(d.times.heard))
		d.say(v, last, "turn.end", `{}`)
		d.heard.clear()
		d.turn = ""
	}
}

// begin begins a turn.
func (d *azureDialogue) begin(v *voice, id string, body []byte) {
	var context struct {
		Grammars struct {
			Groups []struct {
				Items []struct{ Text string }
			}
		} `json:"dgi"`
	}
	_ = json.Unmarshal(body, &context)
	terms := ""
	for _, group := range context.Grammars.Groups {
		for _, item := range group.Items {
			terms = strings.TrimSpace(beside(terms, item.Text))
		}
	}
	if terms != "" || !v.hit(v.nasty.StickySettings) {
		d.terms = terms
	}
	d.turn, d.times = id, newTimeline("", 0)
	d.say(v, opening, "turn.start", `{"context":{"serviceTag":"%s"}}`, uuid(v.dice))
}

// listen hears audio, whose first message has the header of a WAV file.
func (d *azureDialogue) listen(v *voice, audio []byte) {
	const header = 44
	if d.times.heard == 0 && len(audio) >= header && string(audio[:4]) == "RIFF" {
		d.times = newTimeline("", int(binary.LittleEndian.Uint32(audio[24:])))
		audio = audio[header:]
	}
	if d.times.heard == 0 && len(audio) > 0 {
		d.say(v, remark, "speech.startDetected", `{"Offset":0}`)
	}
	d.utterances(audio, func(ends bool) { d.result(v, ends) })
}

// result gives a result: one that ends its phrase, or one that may change.
func (d *azureDialogue) result(v *voice, ends bool) {
	text, offset := quote(beside(d.heard.words(), d.terms)), d.ticks(d.times.from)
	length := d.ticks(d.times.heard) - offset
	if !ends {
		d.say(v, partial, "speech.hypothesis", `{"Text":%s,"Offset":%d,"Duration":%d}`, text, offset, length)
		return
	}
	d.say(v, final, "speech.phrase", `{"RecognitionStatus":"Success","DisplayText":%s,"Offset":%d,"Duration":%d}`, text, offset, length)
	d.next()
}

// ticks returns the time of a byte in the service's unit, 100 ns.
func (d *azureDialogue) ticks(bytes int) int64 { return int64(d.times.length(bytes) / 100) }

func (d *azureDialogue) say(v *voice, r role, path, format string, args ...any) {
	v.text(r, "X-RequestId:"+d.turn+"\r\nContent-Type:application/json; charset=utf-8\r\nPath:"+path+"\r\n\r\n"+format, args...)
}

func (d *azureDialogue) silent(v *voice) { v.end(frame.NormalClosure, "") }

// azureField returns the value of a field; empty if there is none.
func azureField(fields []byte, name string) string {
	for line := range strings.SplitSeq(string(fields), "\r\n") {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// azureSilence is how long the service bears a client that says nothing.
const azureSilence = 3 * time.Minute

// azureAuth takes keys in Ocp-Apim-Subscription-Key, and tokens as "Bearer TOKEN".
var azureAuth = &keyAuth{
	subprotocols: []string{"USP"},
	key: func(r *http.Request) string {
		return cmp.Or(r.Header.Get("Ocp-Apim-Subscription-Key"), scheme(r, "Bearer"))
	},
	unauthorized: `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`,
}
