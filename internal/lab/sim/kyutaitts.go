package sim

import (
	"net/http"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// kyutaiAhead is how many words the model wants to know of before it speaks on: interleaved_text_only.
const kyutaiAhead = 2

// kyutaiTTSDialogue is a connection to Kyutai's speech server that speaks (kyutai-labs/moshi, rust/moshi-server/src/py_module.rs), with the
// format Pcm or, by default, PcmMessagePack; the real server's default is OggOpus, which is not simulated. Texts are cut into words where they end, and the model speaks some words behind. At the end of
// the text, which is Eos or a byte 0, it speaks the rest, and the server closes without a code. The real model begins with a silence, and
// speaks on each word as long as it likes: here, a step.
type kyutaiTTSDialogue struct {
	packed  bool
	voice   string // a word that is said as well, as if the voice had a sound
	pending []string
	step    int
}

func newKyutaiTTSDialogue(r *http.Request) *kyutaiTTSDialogue {
	query := r.URL.Query()
	return &kyutaiTTSDialogue{packed: query.Get("format") != "Pcm", voice: query.Get("voice")}
}

func (d *kyutaiTTSDialogue) greet(v *voice) {
	switch placed := v.place(); {
	case !placed:
		if d.packed {
			b := msgp.AppendString(AppendKyutai(nil, "Error", 1), "message")
			v.binary(remark, msgp.AppendString(b, "no free channels"))
		}
		v.end(frame.NoStatus, "")
	case d.packed:
		v.binary(opening, AppendKyutai(nil, "Ready", 0))
	}
}

func (d *kyutaiTTSDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	said := KyutaiMessage{Type: "Text", Text: string(message)}
	if kind == frame.Binary {
		if string(message) == "\x00" {
			said.Type = "Eos"
		} else if m, _, err := ReadKyutai(message); err == nil {
			said = m
		} else {
			said.Type = ""
		}
	}
	ahead := kyutaiAhead
	switch said.Type {
	case "Text":
		d.pending = append(d.pending, strings.Fields(said.Text)...)
	case "Voice":
	case "Eos":
		ahead = 0
	default:
		v.end(frame.NoStatus, "")
		return
	}
	for len(d.pending) > ahead {
		d.speak(v, d.pending[0])
		d.pending = d.pending[1:]
	}
	if said.Type == "Eos" {
		v.end(frame.NoStatus, "")
	}
}

// speak says a word and its audio.
func (d *kyutaiTTSDialogue) speak(v *voice, word string) {
	pcm := appendSpeech(nil, word, kyutaiFrame, true)
	d.step++
	if !d.packed {
		v.binary(final, pcm)
		return
	}
	v.binary(final, AppendKyutaiAudio(nil, pcm))
	b := msgp.AppendString(AppendKyutai(nil, "Text", 3), "text")
	b = msgp.AppendString(msgp.AppendString(b, beside(word, d.voice)), "start_s")
	b = msgp.AppendString(msgp.AppendFloat64(b, kyutaiTime(d.step-1)), "stop_s")
	v.binary(remark, msgp.AppendFloat64(b, kyutaiTime(d.step)))
}

// length is how much was spoken: what a slow server needs its time for.
func (d *kyutaiTTSDialogue) length() time.Duration { return time.Duration(d.step) * utterance }
