package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
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
	step    int    // steps since Init
	total   int    // bytes of audio
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
		b := msgp.AppendString(AppendKyutai(nil, "Error", 1), "message")
		v.binary(remark, msgp.AppendString(b, "no free channels"))
		v.end(frame.NormalClosure, "")
		return
	}
	v.binary(opening, AppendKyutai(nil, "Ready", 0)) // the server sends itself Init
}

func (d *kyutaiDialogue) hear(v *voice, kind frame.Opcode, payload []byte) {
	if kind != frame.Binary {
		return // the real server passes it over
	}
	said, _, err := ReadKyutai(payload)
	if err != nil {
		v.end(frame.NormalClosure, "")
		return
	}
	switch said.Type {
	case "Init":
		if v.hit(v.nasty.ResetIgnored) {
			return
		}
		d.heard.clear()
		d.text = nil
		for i := range d.markers { // they count the server's steps, which keep running
			d.markers[i].due -= d.step
		}
		d.step = 0
		v.binary(opening, AppendKyutai(nil, "Ready", 0))
	case "Marker":
		d.markers = append(d.markers, kyutaiMarker{said.ID, d.step + kyutaiDelay + len(d.waiting)/kyutaiFrame})
	case "Audio":
		d.waiting = append(d.waiting, said.PCM...)
		d.total += len(said.PCM)
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
	b := msgp.AppendInt64(msgp.AppendString(AppendKyutai(nil, "Step", 3), "step_idx"), int64(d.step))
	b = appendFloats(msgp.AppendString(b, "prs"), make([]byte, 16))
	v.binary(remark, msgp.AppendInt64(msgp.AppendString(b, "buffered_pcm"), int64(len(d.waiting)/4)))
	if len(d.text) > kyutaiDelay {
		word, d.text = d.text[0], d.text[1:]
		if word != "" {
			b = msgp.AppendString(msgp.AppendString(AppendKyutai(nil, "Word", 2), "text"), word)
			of := d.step - 1 - kyutaiDelay // the step that it was said in, from 0
			v.binary(final, msgp.AppendFloat64(msgp.AppendString(b, "start_time"), kyutaiTime(of)))
			b = msgp.AppendString(AppendKyutai(nil, "EndWord", 1), "stop_time")
			v.binary(remark, msgp.AppendFloat64(b, kyutaiTime(of+1)))
		}
	}
	d.markers = slices.DeleteFunc(d.markers, func(m kyutaiMarker) bool {
		due := m.due <= d.step
		if due {
			v.binary(last, msgp.AppendInt64(msgp.AppendString(AppendKyutai(nil, "Marker", 1), "id"), m.id))
		}
		return due
	})
}

// kyutaiTime is when a step begins, in seconds since Init.
func kyutaiTime(step int) float64 { return float64(step*kyutaiFrame/4) / 24000 }

func (d *kyutaiDialogue) length() time.Duration {
	return time.Duration(d.total/4) * time.Second / 24000
}

// KyutaiMessage holds the fields that a message between Kyutai's speech server and its clients may have; which ones it has
// depends on its type.
type KyutaiMessage struct {
	Type          string
	ID            int64  // of a marker
	PCM           []byte // samples of 32 bits, floating-point, little-endian, as they lie in memory elsewhere
	Text, Message string
	Start, Stop   float64 // seconds
}

// AppendKyutai appends the beginning of a message of a type with that many other fields. Each field follows as a name and a value.
func AppendKyutai(dst []byte, kind string, fields uint32) []byte {
	return msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(dst, 1+fields), "type"), kind)
}

// AppendKyutaiAudio appends a message with samples, which are as in [KyutaiMessage].
func AppendKyutaiAudio(dst, pcm []byte) []byte {
	return appendFloats(msgp.AppendString(AppendKyutai(dst, "Audio", 1), "pcm"), pcm)
}

func appendFloats(dst, pcm []byte) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(pcm)/4))
	for ; len(pcm) >= 4; pcm = pcm[4:] {
		dst = msgp.AppendFloat32(dst, math.Float32frombits(binary.LittleEndian.Uint32(pcm)))
	}
	return dst
}

// ReadKyutai reads the message at the start of b, and returns what follows it.
func ReadKyutai(b []byte) (m KyutaiMessage, rest []byte, err error) {
	fields, b, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name []byte
		if name, b, err = msgp.ReadMapKeyZC(b); err != nil {
			break
		}
		switch string(name) {
		case "type":
			m.Type, b, err = msgp.ReadStringBytes(b)
		case "id":
			m.ID, b, err = msgp.ReadInt64Bytes(b)
		case "pcm":
			m.PCM, b, err = readFloats(b)
		case "text":
			m.Text, b, err = msgp.ReadStringBytes(b)
		case "message":
			m.Message, b, err = msgp.ReadStringBytes(b)
		case "start_time":
			m.Start, b, err = msgp.ReadFloat64Bytes(b)
		case "stop_time":
			m.Stop, b, err = msgp.ReadFloat64Bytes(b)
		default:
			b, err = msgp.Skip(b)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil {
		return KyutaiMessage{}, nil, fmt.Errorf("a message of Kyutai's: %w", err)
	}
	return m, b, nil
}

// readFloats reads an array of floating-point numbers of 32 bits, bit by bit, or of 64.
func readFloats(b []byte) (pcm, rest []byte, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, nil, err
	}
	pcm = make([]byte, 0, 4*min(uint64(n), uint64(len(b)/5))) // no more than there can be samples
	for range n {
		var f float32
		if msgp.NextType(b) == msgp.Float64Type {
			var wide float64
			wide, b, err = msgp.ReadFloat64Bytes(b)
			f = float32(wide)
		} else {
			f, b, err = msgp.ReadFloat32Bytes(b)
		}
		if err != nil {
			return nil, nil, err
		}
		pcm = binary.LittleEndian.AppendUint32(pcm, math.Float32bits(f))
	}
	return pcm, b, nil
}
