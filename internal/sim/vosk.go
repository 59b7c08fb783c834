package sim

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// The two commands of Vosk's protocol. The real server compares them byte by byte, blanks included.
const (
	voskEOF   = `{"eof" : 1}`
	voskReset = `{"reset" : 1}`
)

// The sample rates that a client may set.
const (
	defaultSampleRate = 16000
	minSampleRate     = 1000
	maxSampleRate     = 384000
)

// voskDialogue is a session with the Vosk server, whose habits it keeps: a configuration is not answered, and ignored
// once the recogniser exists; every binary message gets exactly one answer; what the server cannot read makes it fail
// with 1011.
type voskDialogue struct {
	rate       int
	words      bool // list the words with their times
	recogniser *recogniser
	out        []byte // the last answer, kept for its memory
}

func newVoskDialogue() *voskDialogue { return &voskDialogue{rate: defaultSampleRate, words: true} }

func (d *voskDialogue) hear(kind frame.Opcode, message []byte) reply {
	if kind == frame.Text && bytes.Contains(message, []byte("config")) {
		if err := d.configure(message); err != nil {
			return failure(err)
		}
		return reply{}
	}
	if d.recogniser == nil {
		d.recogniser = newRecogniser(d.rate)
	}
	if kind == frame.Binary {
		d.recogniser.listen(message)
		if words := d.recogniser.results(); len(words) > 0 {
			return d.final(words)
		}
		return d.partial()
	}
	switch string(message) {
	case voskEOF:
		last := d.final(d.recogniser.finish())
		last.closing = frame.NormalClosure
		return last
	case voskReset:
		return d.final(d.recogniser.finish())
	}
	return failure(fmt.Errorf("unknown command %.40q", message))
}

// failure is what becomes of an exception in the real server.
func failure(err error) reply {
	return reply{closing: frame.InternalError, reason: err.Error()}
}

// configure takes a configuration. One that comes after the first audio has no effect.
func (d *voskDialogue) configure(message []byte) error {
	var parsed struct {
		Config struct {
			SampleRate *float64 `json:"sample_rate"`
			Words      *bool    `json:"words"`
		} `json:"config"`
	}
	if err := json.Unmarshal(message, &parsed); err != nil {
		return fmt.Errorf("unreadable configuration: %w", err)
	}
	if d.recogniser != nil {
		return nil
	}
	if rate := parsed.Config.SampleRate; rate != nil {
		if !(*rate >= minSampleRate && *rate <= maxSampleRate) {
			return fmt.Errorf("sample_rate %v is out of range; allowed is %d to %d", *rate, minSampleRate, maxSampleRate)
		}
		d.rate = int(*rate)
	}
	if words := parsed.Config.Words; words != nil {
		d.words = *words
	}
	return nil
}

// final is an answer with the words of whole utterances, laid out as the real server does.
func (d *voskDialogue) final(words []word) reply {
	out := append(d.out[:0], "{\n"...)
	if d.words && len(words) > 0 {
		out = append(out, "  \"result\" : [{\n"...)
		for i, w := range words {
			if i > 0 {
				out = append(out, ", {\n"...)
			}
			out = fmt.Appendf(out, "      \"conf\" : 1.000000,\n      \"end\" : %.6f,\n      \"start\" : %.6f,\n      \"word\" : \"%s\"\n    }",
				w.end.Seconds(), w.start.Seconds(), w.text)
		}
		out = append(out, "],\n"...)
	}
	return d.say(out, "text", words)
}

// partial is an answer with the words of the utterance under way.
func (d *voskDialogue) partial() reply {
	return d.say(append(d.out[:0], "{\n"...), "partial", d.recogniser.underWay())
}

// say ends an answer with the words as one text.
func (d *voskDialogue) say(out []byte, key string, words []word) reply {
	out = fmt.Appendf(out, "  \"%s\" : \"", key)
	for i, w := range words {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, w.text...)
	}
	d.out = append(out, "\"\n}"...)
	return reply{kind: frame.Text, payload: d.out}
}
