package frame

import (
	"bytes"
	"testing"
)

// A message of empty frames ends at a limit, however the network cuts it, inspected or not; those of other messages do not count.
func TestEmptyFrames(t *testing.T) {
	masked := func(fin bool, op Opcode, payload string) []byte {
		return Append(nil, Header{Fin: fin, Opcode: op, Masked: true, Mask: 0x01020304}, []byte(payload))
	}
	begin, empty, end := masked(false, Binary, "x"), masked(false, Continuation, ""), masked(true, Continuation, "")
	for _, inspect := range []Kinds{0, 1 << Binary} {
		for _, size := range []int{1, 7, 6 * maxEmpty} {
			s := NewClientScanner(0)
			s.Inspect = inspect
			scan := func(wire []byte) error {
				var held []byte
				for len(wire) > 0 {
					n := min(size, len(wire))
					b := append(held, wire[:n]...)
					wire = wire[n:]
					for {
						run, err := s.Next(b)
						b = b[run.Consumed:]
						if err == nil && run.Inspect {
							var piece Piece
							piece, err = s.NextPiece(b)
							b = b[piece.Size:]
						}
						if err != nil {
							return err
						}
						if !run.Inspect {
							break
						}
					}
					held = bytes.Clone(b)
				}
				return nil
			}
			message := append(bytes.Clone(begin), bytes.Repeat(empty, maxEmpty)...)
			for range 3 {
				if err := scan(append(bytes.Clone(message), end...)); err != nil {
					t.Fatalf("inspect %d, %d bytes at a time: %v", inspect, size, err)
				}
			}
			if err := scan(append(bytes.Clone(message), empty...)); err != ErrEmptyFrames {
				t.Errorf("inspect %d, %d bytes at a time: got %v", inspect, size, err)
			}
		}
	}
	s := NewServerScanner()
	if _, err := s.Next(append([]byte("\x02\x01x"), bytes.Repeat([]byte("\x00\x00"), 3*maxEmpty)...)); err != nil {
		t.Errorf("of a server: %v", err)
	}
}
