package load

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// transcribe writes down what an inbox finds in a stream that arrives cut at the given places.
func transcribe(t *testing.T, stream []byte, cuts func(left int) int) (said string, err error) {
	t.Helper()
	var in inbox
	var held []byte
	for len(stream) > 0 {
		n := cuts(len(stream))
		b := append(held, stream[:n]...)
		stream = stream[n:]
		for len(b) > 0 {
			p, n, err := in.next(b)
			if err != nil {
				return said, err
			}
			if n == 0 {
				break
			}
			if p.opcode.IsControl() {
				said += "<" + p.opcode.String() + " " + string(p.payload) + ">"
			} else {
				if p.first {
					said += "[" + p.opcode.String() + " "
				}
				said += string(p.payload)
				if p.last {
					said += "]"
				}
			}
			b = b[n:]
		}
		if len(b) > 256 {
			t.Fatalf("%d bytes were left over", len(b))
		}
		held = append([]byte(nil), b...)
	}
	return said, nil
}

func TestInboxTakesFramesApart(t *testing.T) {
	var stream []byte
	add := func(fin bool, opcode frame.Opcode, payload string) {
		stream = frame.Append(stream, frame.Header{Fin: fin, Opcode: opcode}, []byte(payload))
	}
	long := string(make([]byte, 300))
	add(true, frame.Text, "one")
	add(true, frame.Text, "")
	add(false, frame.Binary, "t")
	add(true, frame.Ping, "ping")
	add(false, frame.Continuation, "")
	add(false, frame.Continuation, "w")
	add(true, frame.Continuation, "o")
	add(true, frame.Binary, long)
	add(false, frame.Text, "x")
	add(true, frame.Continuation, "")
	add(true, frame.Close, "bye")
	want := "[text one][text ][binary t<ping ping>wo][binary " + long + "][text x]<close bye>"
	random := rand.New(rand.NewPCG(7, 8))
	for i := range 200 {
		got, err := transcribe(t, stream, func(left int) int { return min(left, 1+random.IntN(1+i)) })
		if err != nil || got != want {
			t.Fatalf("%v\ngot  %q\nwant %q", err, got, want)
		}
	}
}

func TestInboxNoticesBreaches(t *testing.T) {
	one := func(h frame.Header) []byte { return frame.Append(nil, h, []byte("x")) }
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"masked":            {one(frame.Header{Fin: true, Opcode: frame.Text, Masked: true, Mask: 1}), frame.ErrMasked},
		"no message":        {one(frame.Header{Fin: true}), frame.ErrNoMessage},
		"message inside":    {append(one(frame.Header{Opcode: frame.Text}), one(frame.Header{Opcode: frame.Text})...), frame.ErrInMessage},
		"reserved bits":     {[]byte{0xc1, 0}, frame.ErrReservedBits},
		"reserved opcode":   {[]byte{0x83, 0}, frame.ErrReservedOpcode},
		"fragmented a ping": {[]byte{0x09, 0}, frame.ErrFragmentedControl},
	} {
		for _, piece := range []int{1, 100} {
			if _, err := transcribe(t, c.stream, func(left int) int { return min(left, piece) }); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
