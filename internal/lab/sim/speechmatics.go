package sim

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// speechmaticsDialogue is a connection to Speechmatics' real-time service, /v2, simulated from its documents: StartRecognition,
// exactly once, is answered with RecognitionStarted, each message of audio with AudioAdded and a transcript, ForceEndOfUtterance with
// the final transcript and EndOfUtterance, EndOfStream with EndOfTranscript, and the server closes. A quota that is used up closes with
// 4005. Unlike the real service, it gives partial transcripts unless the client says "enable_partials": false.
type speechmaticsDialogue struct {
	started  bool
	vocab    string
	language string
	partials bool
	added    int
	recognition
}

// speechmaticsMessage is what a client says.
type speechmaticsMessage struct {
	Message string `json:"message"`
	Format  struct {
		Encoding string `json:"encoding"`
		Rate     int    `json:"sample_rate"`
	} `json:"audio_format"`
	Config struct {
		Language string `json:"language"`
		Partials *bool  `json:"enable_partials"`
		Vocab    []struct {
			Content string `json:"content"`
		} `json:"additional_vocab"`
	} `json:"transcription_config"`
}

func (d *speechmaticsDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if !d.started {
			d.fail(v, "protocol_error", "audio before RecognitionStarted", frame.ProtocolError)
			return
		}
		d.added++
		v.text(remark, `{"message": "AudioAdded", "seq_no": %d}`, d.added)
		d.utterances(message, func(ends bool) {
			if ends || d.partials {
				d.transcript(v, ends)
			}
		})
		return
	}
	var said speechmaticsMessage
	err := json.Unmarshal(message, &said)
	switch {
	case err != nil:
		d.fail(v, "invalid_message", "not understood", frame.ProtocolError)
	case said.Message == "StartRecognition" && !d.started:
		d.start(v, &said)
	case said.Message == "SetRecognitionConfig" && d.started:
		if said.Config.Partials != nil {
			d.partials = *said.Config.Partials
		}
	case said.Message == "ForceEndOfUtterance" && d.started:
		if d.heard.bytes > 0 {
			d.transcript(v, true)
		}
		v.text(remark, `{"message": "EndOfUtterance", "metadata": {"start_time": %g, "end_time": %[1]g}}`, d.times.end())
	case said.Message == "EndOfStream" && d.started:
		if d.heard.bytes > 0 {
			d.transcript(v, true)
		}
		v.text(last, `{"message": "EndOfTranscript"}`)
		v.end(frame.NormalClosure, "")
	default:
		d.fail(v, "protocol_error", "message "+said.Message+" does not fit", frame.ProtocolError)
	}
}

func (d *speechmaticsDialogue) start(v *voice, said *speechmaticsMessage) {
	if !v.place() {
		d.fail(v, "quota_exceeded", "Concurrent Quota Exceeded", 4005)
		return
	}
	d.started = true
	d.language = cmp.Or(said.Config.Language, "en")
	d.partials = said.Config.Partials == nil || *said.Config.Partials
	d.times = newTimeline(said.Format.Encoding, said.Format.Rate)
	for _, word := range said.Config.Vocab {
		d.vocab += " " + word.Content
	}
	v.text(opening, `{"message": "RecognitionStarted", "orchestrator_version": "simulated", "id": "%s",`+
		` "language_pack_info": {"adapted": false, "itn": true, "language_description": %s, "word_delimiter": " ", "writing_direction": "left-to-right"}}`,
		uuid(v.dice), quote(d.language))
}

// speechmaticsResult is a word of a transcript.
type speechmaticsResult struct {
	Type         string                    `json:"type"`
	Start        float64                   `json:"start_time"`
	End          float64                   `json:"end_time"`
	Alternatives []speechmaticsAlternative `json:"alternatives"`
}

type speechmaticsAlternative struct {
	Content    string  `json:"content"`
	Confidence float64 `json:"confidence"`
	Language   string  `json:"language"`
}

func (d *speechmaticsDialogue) transcript(v *voice, ends bool) {
	r, name, words := partial, "AddPartialTranscript", d.heard.words()+d.vocab
	results := timedJSON(&d.times, words, func(w timedWord) speechmaticsResult {
		return speechmaticsResult{"word", w.start, w.end, []speechmaticsAlternative{{w.text, 1, d.language}}}
	})
	start, end := d.times.start(), d.times.end()
	if ends {
		r, name = final, "AddTranscript"
		d.next()
	}
	v.text(r, `{"message": "%s", "format": "2.9", "metadata": {"start_time": %g, "end_time": %g, "transcript": %s}, "results": %s}`,
		name, start, end, quote(words), results)
}

func (d *speechmaticsDialogue) fail(v *voice, kind, reason string, code frame.CloseCode) {
	v.text(remark, `{"message": "Error", "type": "%s", "reason": %s}`, kind, quote(reason))
	v.end(code, kind)
}

func (d *speechmaticsDialogue) silent(v *voice) {
	d.fail(v, "idle_timeout", "no message for too long", frame.NormalClosure)
}

// speechmaticsAuth takes keys as "Bearer KEY", or tokens that live for a short time as ?jwt=; both are the same here.
var speechmaticsAuth = &keyAuth{
	key:          func(r *http.Request) string { return cmp.Or(scheme(r, "Bearer"), r.URL.Query().Get("jwt")) },
	unauthorized: `{"code":401,"error":"Permission Denied"}`,
}
