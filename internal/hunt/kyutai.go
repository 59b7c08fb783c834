package hunt

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/sim/msgpack"
)

// Kyutai's server takes 1,920 samples of 32 bits at a time, and says words that many times later.
const (
	kyutaiStep  = 1920 * 4
	kyutaiDelay = 6
)

// inMessagePack is audio as Kyutai's server takes it.
func inMessagePack(_ *Progress, scratch, audio []byte) []byte {
	b := msgpack.AppendString(msgpack.AppendString(msgpack.AppendMap(scratch, 2), "type"), "Audio")
	return msgpack.AppendFloats(msgpack.AppendString(b, "pcm"), audio)
}

// endKyutai fills the last step up with silence, sends a marker, and silence until it must have come back.
func endKyutai(p *Progress) []Message {
	silence := inMessagePack(p, nil, make([]byte, kyutaiStep))
	marker := msgpack.AppendString(msgpack.AppendString(msgpack.AppendMap(nil, 2), "type"), "Marker")
	marker = msgpack.AppendInt(msgpack.AppendString(marker, "id"), int64(p.Number))
	said := []Message{{frame.Binary, silence}, {frame.Binary, marker}}
	for range kyutaiDelay {
		said = append(said, Message{frame.Binary, silence})
	}
	return said
}

// markerOf returns the id of a marker that came back; -1 of another message.
func markerOf(m Message) int64 {
	value, _, err := msgpack.Decode(m.Payload)
	said, ok := value.(map[string]any)
	if err != nil || !ok || said["type"] != "Marker" {
		return -1
	}
	id, _ := said["id"].(int64)
	return id
}
