package sim

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// KyutaiMessage holds the fields that a message between Kyutai's speech server and its clients may have; which ones it has
// depends on its type.
type KyutaiMessage struct {
	Type          string
	ID            int64  // of a marker
	PCM           []byte // samples of 32 bits, floating-point, little-endian, as they lie in memory elsewhere
	Text, Message string
	Start, Stop   float64 // seconds
}

// AppendKyutai appends the beginning of a message of a type with so many other fields. Each field follows as a name and a value.
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
