package wstest

import (
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Mask is the masking key of all test clients. A server that receives it knows that the proxy relayed the client's own bytes.
const Mask = 0x1f2e3d4c

// ClientFrame returns a frame as a test client sends it.
func ClientFrame[Text ~string | ~[]byte](fin bool, op frame.Opcode, payload Text) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op, Masked: true, Mask: Mask}, []byte(payload))
}

// ServerFrame returns a frame as a server sends it.
func ServerFrame[Text ~string | ~[]byte](fin bool, op frame.Opcode, payload Text) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op}, []byte(payload))
}

// Noise returns n bytes that repeat nowhere. A seed always gives the same bytes.
func Noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}
