package frame

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// hostileStreams are what a server must not send, one for each rule, after a good message or within one.
func hostileStreams() [][]byte {
	good, part := plain(true, Text, "good"), plain(false, Binary, "part")
	return [][]byte{
		join(good, masked(true, Text, "masked")),
		join(part, masked(true, Continuation, "masked")),
		join(part, masked(true, Ping, "masked")),
		join(good, []byte{0xc1, 1, 'x'}),
		join(good, []byte{0xa2, 0}),
		join(part, []byte{0x90, 0}),
		join(good, []byte{0x83, 1, 'x'}),
		join(part, []byte{0x07, 0}),
		join(good, []byte{0x8b, 0}),
		join(part, []byte{0x8f, 2, 'x', 'y'}),
		join(good, plain(false, Ping, "x")),
		join(part, plain(false, Close, "\x03\xe8")),
		join(part, plain(true, Ping, strings.Repeat("x", 126))),
		join(good, plain(true, Pong, strings.Repeat("x", 200))),
		join(good, []byte{0x88, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0}),
		join(good, []byte{0x82, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 1, 'x'}),
		join(part, []byte{0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}),
		join(good, []byte{0x81, 0x7e, 0, 5}, []byte("hello")),
		join(part, []byte{0x80, 0x7f, 0, 0, 0, 0, 0, 0, 0xff, 0xff}),
		join(good, plain(true, Continuation, "of nothing")),
		join(good, plain(false, Continuation, "")),
		join(part, good),
		join(part, plain(true, Close, "\x03"), good),
		join(good, plain(true, Close, "\x03\xed"), []byte{0x83, 0}, good),
		join(good, plain(true, Close, "\x03\xe8\xff"), masked(true, Text, "masked"), good),
	}
}

// feedInspecting presents a server's stream to a scanner that may inspect messages. After an error it continues with the next piece, as
// the proxy does while it waits for the server to end the connection.
func feedInspecting(t *testing.T, s *Scanner, pieces [][]byte) outcome {
	t.Helper()
	var o outcome
	var b []byte
	for _, piece := range pieces {
		b = append(b, piece...)
		for {
			run, err := s.Next(b)
			if run.Data < 0 || run.Data > run.Consumed || run.Consumed > len(b) {
				t.Fatalf("run %+v of %d bytes", run, len(b))
			}
			raw, rest := b[:run.Data], b[run.Consumed:]
			if err == nil && run.Inspect {
				var p Piece
				if p, err = s.NextPiece(rest); p.Size > len(rest) || len(p.Payload) > p.Size || err == nil && p.Size == 0 {
					t.Fatalf("piece %+v of %d bytes", p, len(rest))
				}
				raw, rest = append(bytes.Clone(raw), rest[:p.Size]...), rest[p.Size:]
			}
			if o.err == nil {
				o.passed = append(o.passed, raw...)
				if run.HasControl() {
					o.controls = append(o.controls, control{len(o.passed), run.Control, string(run.Payload)})
				}
				o.err = err
			}
			if b = rest; err != nil {
				b = nil
			}
			if err != nil || !run.HasControl() && !run.Inspect {
				break
			}
		}
		if len(b) > MaxControlSize {
			t.Fatalf("%d bytes left, more than MaxControlSize", len(b))
		}
	}
	return o
}

// FuzzHostileServer compares a scanner that inspects messages with one that inspects none: they must find the same frames and the same
// error, wherever the stream is cut. Neither may panic on what comes after an error.
func FuzzHostileServer(f *testing.F) {
	for _, b := range hostileStreams() {
		f.Add(b, uint8(3))
		f.Add(b, uint8(1<<Text))
	}
	f.Fuzz(func(t *testing.T, stream []byte, inspect uint8) {
		if len(stream) > 320 { // the time grows with the square of the length
			return
		}
		everySplit(stream, func(pieces [][]byte) {
			inspecting, other := NewServerScanner(), NewServerScanner()
			inspecting.Inspect = Kinds(inspect) & (1<<Text | 1<<Binary)
			got, want := feedInspecting(t, &inspecting, pieces), feed(t, &other, pieces...)
			if got.err != want.err || !bytes.Equal(got.passed, want.passed) || !slices.Equal(got.controls, want.controls) {
				t.Fatalf("inspecting %b, in %d pieces: %+v; want %+v", inspecting.Inspect, len(pieces), got, want)
			}
		})
	})
}

// Each of the hostile streams is an error, in whatever pieces it arrives: of a frame, or of its close frame's payload.
func TestHostileServer(t *testing.T) {
	for _, stream := range hostileStreams() {
		everySplit(stream, func(pieces [][]byte) {
			s := NewServerScanner()
			o := feed(t, &s, pieces...)
			err := o.err
			for _, c := range o.controls {
				if _, _, broken := ParseClose([]byte(c.payload)); broken != nil {
					err = broken
				}
			}
			broken, ok := err.(*Error)
			if !ok || broken.Code != ProtocolError && broken.Code != InvalidPayload {
				t.Fatalf("% x in %d pieces: %v", stream, len(pieces), err)
			}
			if !s.AtFrameBoundary() {
				t.Fatalf("% x in %d pieces: no close frame can follow what was passed on", stream, len(pieces))
			}
		})
	}
}
