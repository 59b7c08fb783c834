package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
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

// voskFrame is how much audio the recogniser decodes at a time, in bytes: what is less waits for more, or for the end.
const voskFrame = 320

// voskDialogue is a connection to the Vosk server in Python (alphacep/vosk-server, websocket/asr_server.py; the recogniser's
// states: alphacep/vosk-api, src/recognizer.cc), whose habits it keeps: a configuration is not answered, and ignored
// once the recogniser exists; every binary message gets exactly one answer; what the server cannot read makes it fail
// with 1011. A reset right after an utterance that ended by itself does nothing and answers with an empty text: audio that
// was not decoded yet stays. Times count from the recogniser's first audio, and keep running over resets. (What marks tell; the checksum
// of the words begins anew with every reset.)
type voskDialogue struct {
	rate       int
	words      bool     // list the words with their times
	phrases    []string // that the recogniser is bound to
	recogniser *recogniser

	marks     hearing
	times     timeline // of what was decoded for the marks
	undecoded []byte   // less than a frame
	running   bool     // audio was taken since the last final result

	conf float64 // how sure it is of all words
	out  []byte  // the last answer, kept for its memory
}

func newVoskDialogue() *voskDialogue { return &voskDialogue{rate: defaultSampleRate, words: true} }

func (d *voskDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Text && bytes.Contains(message, []byte("config")) {
		if err := d.configure(message); err != nil {
			v.end(frame.InternalError, err.Error())
		}
		return
	}
	if d.recogniser == nil {
		d.recogniser = newRecogniser(d.rate)
		d.times = newTimeline("int16", d.rate)
	}
	if d.conf = 1; v.hit(v.nasty.Dither) {
		d.conf = 0.99
	}
	switch {
	case kind == frame.Binary:
		d.listen(v, message)
	case string(message) == voskEOF:
		end := d.finish()
		end.closing = frame.NormalClosure
		v.say(end)
	case string(message) == voskReset:
		if !v.hit(v.nasty.ResetIgnored) {
			v.say(d.finish())
		}
	default: // an exception in the real server
		v.end(frame.InternalError, fmt.Sprintf("unknown command %.40q", message))
	}
}

// listen answers audio.
func (d *voskDialogue) listen(v *voice, audio []byte) {
	d.running = true
	d.recogniser.listen(audio)
	d.undecoded = append(d.undecoded, audio...)
	whole := len(d.undecoded) / voskFrame * voskFrame
	d.marks.listen(d.undecoded[:whole])
	d.times.listen(d.undecoded[:whole])
	d.undecoded = append(d.undecoded[:0], d.undecoded[whole:]...)
	words := d.recogniser.results()
	if len(words) == 0 && !d.marks.pause {
		v.say(d.partial())
		return
	}
	d.running = false
	words = d.withMarks(words)
	d.marks.next()
	d.times.next()
	v.say(d.final(final, words))
}

// finish gives the final result of what was not answered for good yet, and clears the recogniser, if it is running.
func (d *voskDialogue) finish() reply {
	words := d.recogniser.finish()
	if !d.running {
		return d.final(last, words)
	}
	d.running = false
	d.marks.listen(d.undecoded)
	d.times.listen(d.undecoded)
	d.undecoded = d.undecoded[:0]
	words = d.withMarks(words)
	d.marks.clear()
	d.times.next()
	return d.final(last, words)
}

// withMarks adds the marks that were heard, with the time of the utterance, and the phrases that the recogniser is bound to.
func (d *voskDialogue) withMarks(words []word) []word {
	if len(d.marks.runs) == 0 {
		return words
	}
	for _, text := range append([]string{d.marks.words()}, d.phrases...) {
		words = append(words, word{text: text, start: d.times.length(d.times.from), end: d.times.length(d.times.heard)})
	}
	return words
}

// configure takes a configuration. One that comes after the first audio has no effect.
func (d *voskDialogue) configure(message []byte) error {
	var parsed struct {
		Config struct {
			SampleRate float64  `json:"sample_rate"`
			Words      bool     `json:"words"`
			Phrases    []string `json:"phrase_list"`
		} `json:"config"`
	}
	said := &parsed.Config
	said.SampleRate, said.Words = float64(d.rate), d.words // what it does not set stays as it was
	if err := json.Unmarshal(message, &parsed); err != nil {
		return fmt.Errorf("unreadable configuration: %w", err)
	}
	if d.recogniser != nil {
		return nil
	}
	if !(said.SampleRate >= minSampleRate && said.SampleRate <= maxSampleRate) {
		return fmt.Errorf("sample_rate %v is out of range: use %d to %d", said.SampleRate, minSampleRate, maxSampleRate)
	}
	d.rate, d.words = int(said.SampleRate), said.Words
	if said.Phrases != nil {
		d.phrases = said.Phrases
	}
	return nil
}

// final is an answer with the words of whole utterances, laid out as the real server does.
func (d *voskDialogue) final(r role, words []word) reply {
	out := append(d.out[:0], "{\n"...)
	if d.words && len(words) > 0 {
		out = append(out, "  \"result\" : [{\n"...)
		for i, w := range words {
			if i > 0 {
				out = append(out, ", {\n"...)
			}
			out = fmt.Appendf(out, "      \"conf\" : %f,\n      \"end\" : %.6f,\n      \"start\" : %.6f,\n      \"word\" : \"%s\"\n    }",
				d.conf, w.end.Seconds(), w.start.Seconds(), plain(w.text))
		}
		out = append(out, "],\n"...)
	}
	return d.say(r, out, "text", words)
}

// partial is an answer with the words of the utterance under way.
func (d *voskDialogue) partial() reply {
	return d.say(partial, append(d.out[:0], "{\n"...), "partial", d.withMarks(slices.Clip(d.recogniser.underWay())))
}

// say ends an answer with the words as one text.
func (d *voskDialogue) say(r role, out []byte, key string, words []word) reply {
	out = fmt.Appendf(out, "  \"%s\" : \"", key)
	for i, w := range words {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, plain(w.text)...)
	}
	d.out = append(out, "\"\n}"...)
	return reply{role: r, kind: frame.Text, payload: d.out}
}

// plain leaves out of a client's text what would need escaping in JSON.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}

func (d *voskDialogue) length() time.Duration {
	if d.recogniser == nil {
		return 0
	}
	return d.recogniser.at(d.recogniser.samples)
}
