package frame

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

const testKey = 0x3d21fa37 // the masking key of RFC 6455's examples: 37 fa 21 3d on the wire

// unhex decodes the way RFC 6455 writes bytes: "81 05 48".
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// masked returns one frame as a client sends it.
func masked(fin bool, op Opcode, payload string) []byte {
	return Append(nil, Header{Fin: fin, Opcode: op, Masked: true, Mask: testKey}, []byte(payload))
}

// plain returns one frame as a server sends it.
func plain(fin bool, op Opcode, payload string) []byte {
	return Append(nil, Header{Fin: fin, Opcode: op}, []byte(payload))
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// control is a control frame as the scanner reported it, and how much data had been passed on before it.
type control struct {
	after   int
	opcode  Opcode
	payload string
}

// outcome is everything that a scanner found in a stream.
type outcome struct {
	passed     []byte // the data frames, as they would be sent on
	boundaries []int  // offsets into passed
	controls   []control
	tail       int // bytes at the end that were not consumed
	err        error
}

// feed presents the pieces to the scanner as a connection does: what was left unconsumed is presented in front of the next piece.
// It checks what must hold for each run.
func feed(t testing.TB, s *Scanner, pieces ...[]byte) outcome {
	t.Helper()
	var o outcome
	var b []byte
	for _, piece := range pieces {
		b = append(bytes.Clone(b), piece...) // a copy, because control frames are unmasked in place
		for {
			run, err := s.Next(b)
			if run.Data < 0 || run.Data > run.Consumed || run.Consumed > len(b) {
				t.Fatalf("run %+v of %d bytes", run, len(b))
			}
			if run.Boundary > run.Data || run.Boundary < -1 {
				t.Fatalf("boundary outside the data: %+v", run)
			}
			if run.Boundary >= 0 {
				o.boundaries = append(o.boundaries, len(o.passed)+run.Boundary)
			}
			if atEnd := run.Data > 0 && run.Boundary == run.Data; run.Data > 0 && err == nil && atEnd != s.AtFrameBoundary() {
				t.Fatalf("run %+v, but AtFrameBoundary is %v", run, s.AtFrameBoundary())
			}
			o.passed = append(o.passed, b[:run.Data]...)
			if err != nil {
				if run.HasControl() {
					t.Fatalf("control frame with an error: %+v, %v", run, err)
				}
				o.tail, o.err = len(b)-run.Consumed, err
				return o
			}
			if run.HasControl() {
				o.controls = append(o.controls, control{len(o.passed), run.Control, string(run.Payload)})
			}
			b = b[run.Consumed:]
			if !run.HasControl() {
				break
			}
		}
		if len(b) > MaxControlSize {
			t.Fatalf("%d bytes left, more than MaxControlSize", len(b))
		}
	}
	o.tail = len(b)
	return o
}

// bytewise cuts b into pieces of one byte.
func bytewise(b []byte) [][]byte {
	pieces := make([][]byte, 0, len(b))
	for i := range b {
		pieces = append(pieces, b[i:i+1])
	}
	return pieces
}

// everySplit calls f with b in one piece, in two pieces cut at every place, and byte by byte.
func everySplit(b []byte, f func(pieces [][]byte)) {
	f([][]byte{b})
	for i := 1; i < len(b); i++ {
		f([][]byte{b[:i], b[i:]})
	}
	f(bytewise(b))
}
