package hunt

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Kyutai's server takes 1,920 samples of 32 bits at a time, and sends words kyutaiDelay steps later.
const (
	kyutaiStep  = 1920 * 4
	kyutaiDelay = 6
)

// inMessagePack is audio as Kyutai's server takes it.
func inMessagePack(_ *Progress, scratch, audio []byte) []byte {
	return sim.AppendKyutaiAudio(scratch, audio)
}

// endKyutai fills the last step with silence, sends a marker, and then silence until the marker must have come back.
func endKyutai(p *Progress) []Message {
	silence := inMessagePack(p, nil, make([]byte, kyutaiStep))
	marker := msgp.AppendInt64(msgp.AppendString(sim.AppendKyutai(nil, "Marker", 1), "id"), int64(p.Number))
	said := []Message{{frame.Binary, silence}, {frame.Binary, marker}}
	for range kyutaiDelay {
		said = append(said, Message{frame.Binary, silence})
	}
	return said
}

// markerOf returns the id of a marker that came back; -1 for another message.
func markerOf(m Message) int64 {
	said, _, err := sim.ReadKyutai(m.Payload)
	if err != nil || said.Type != "Marker" {
		return -1
	}
	return said.ID
}
