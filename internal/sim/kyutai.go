package sim

import (
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/sim/msgpack"
)

const (
	// kyutaiFrame is a step of the model: 1,920 samples of 32 bits, 80 ms, in bytes.
	kyutaiFrame = 1920 * 4
	// kyutaiDelay is how many steps the text comes behind the audio: asr_delay_in_tokens of the model stt-1b-en_fr.
	kyutaiDelay = 6
)

// kyutaiDialogue is a connection to Kyutai's speech server (kyutai-labs/moshi, rust/moshi-server/src/batched_asr.rs). All messages
// are MessagePack in binary. Each 1,920 samples of audio are a step; words come some steps behind their audio, so only more
// audio, silence if need be, brings the last of them. A marker comes back after as many steps. Init clears the model, and is
// answered with Ready; what it leaves is audio of less than a step, and markers that have not come back.
type kyutaiDialogue struct {
	waiting []byte // less than a step
	step    int
	heard   hearing
	text    []string // of the last steps, not said yet
	markers []kyutaiMarker
}

type kyutaiMarker struct {
	id  int64
	due int // step
}

func (d *kyutaiDialogue) greet(v *voice) {
	if !v.place() {
		message := message("Error", 1)
		v.binary(remark, msgpack.AppendString(msgpack.AppendString(message, "message"), "no free channels"))
		v.end(frame.NormalClosure, "")
		return
	}
	v.binary(opening, message("Ready", 0)) // the server sends itself Init
}

// message begins a message of that type with so many fields besides.
func message(kind string, fields int) []byte {
	b := msgpack.AppendMap(nil, 1+fields)
	return msgpack.AppendString(msgpack.AppendString(b, "type"), kind)
}

func (d *kyutaiDialogue) hear(v *voice, kind frame.Opcode, payload []byte) {
	if kind != frame.Binary {
		return // the real server passes it over
	}
	value, _, err := msgpack.Decode(payload)
	said, ok := value.(map[string]any)
	if err != nil || !ok {
		v.end(frame.NormalClosure, "")
		return
	}
	switch said["type"] {
	case "Init":
		if v.hit(v.nasty.ResetIgnored) {
			return
		}
		d.heard.clear()
		d.text = nil
		v.binary(opening, message("Ready", 0))
	case "Marker":
		id, _ := said["id"].(int64)
		d.markers = append(d.markers, kyutaiMarker{id, d.step + kyutaiDelay + len(d.waiting)/kyutaiFrame})
	case "Audio":
		pcm, _ := said["pcm"].(msgpack.Floats)
		d.waiting = append(d.waiting, pcm...)
		for len(d.waiting) >= kyutaiFrame {
			d.take(v, d.waiting[:kyutaiFrame])
			d.waiting = append(d.waiting[:0], d.waiting[kyutaiFrame:]...)
		}
	default:
		v.end(frame.NormalClosure, "")
	}
}

// take is a step of the model.
func (d *kyutaiDialogue) take(v *voice, audio []byte) {
	d.heard.listen(audio)
	word := d.heard.words()
	if len(d.heard.runs) == 0 { // silence
		word = ""
	}
	d.heard.next()
	d.text = append(d.text, word)
	d.step++
	b := msgpack.AppendInt(msgpack.AppendString(message("Step", 3), "step_idx"), int64(d.step))
	b = msgpack.AppendFloats(msgpack.AppendString(b, "prs"), make(msgpack.Floats, 16))
	v.binary(remark, msgpack.AppendInt(msgpack.AppendString(b, "buffered_pcm"), int64(len(d.waiting)/4)))
	if len(d.text) > kyutaiDelay {
		word, d.text = d.text[0], d.text[1:]
		if word != "" {
			b = msgpack.AppendString(msgpack.AppendString(message("Word", 2), "text"), word)
			start := float64(d.step-kyutaiDelay) * 0.08
			v.binary(final, msgpack.AppendFloat(msgpack.AppendString(b, "start_time"), start))
			b = msgpack.AppendString(message("EndWord", 1), "stop_time")
			v.binary(remark, msgpack.AppendFloat(b, start+0.08))
		}
	}
	d.markers = slices.DeleteFunc(d.markers, func(m kyutaiMarker) bool {
		due := m.due <= d.step
		if due {
			v.binary(last, msgpack.AppendInt(msgpack.AppendString(message("Marker", 1), "id"), m.id))
		}
		return due
	})
}
