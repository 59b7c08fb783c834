package sim

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// echoDialogue answers every message with the same message.
type echoDialogue struct{}

func (echoDialogue) greet(*voice) {}

func (echoDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	v.say(reply{role: final, kind: kind, payload: message})
}
