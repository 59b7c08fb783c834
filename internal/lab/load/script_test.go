package load

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// said returns a message as it is in its frame, unmasked, and checks the frame.
func said(t *testing.T, s *script, client, number uint32) []byte {
	t.Helper()
	b := s.append(nil, client, number)
	if len(b) != s.frameSize() {
		t.Fatalf("the frame has %d bytes, not %d", len(b), s.frameSize())
	}
	scanner := frame.NewClientScanner(0)
	run, err := scanner.Next(b)
	if err != nil || run.Data != len(b) || !scanner.AtMessageBoundary() {
		t.Fatalf("not one valid message: %+v, %v", run, err)
	}
	h, size, _ := frame.ParseHeader(b)
	if h.Opcode != s.opcode || h.Length != int64(s.size) {
		t.Fatalf("header %+v", h)
	}
	frame.ApplyMask(b[size:], h.Mask)
	return b[size:]
}

// heard returns what a client finds wrong with a message that comes in pieces of the given size.
func heard(s *script, client uint32, message []byte, piece int) (known bool, number uint32, wrong string) {
	var r reply
	r.begin()
	for len(message) > 0 {
		n := min(piece, len(message))
		r.take(s, client, message[:n])
		message = message[n:]
	}
	known = r.end(s)
	return known, r.number, r.wrong
}

func TestScriptIsUnderstood(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, o := range []Options{{Text: true}, {}, {Text: true, Unicode: true}} {
		for _, size := range []int{MinSize, MinSize + 1, MinSize + 3, MinSize + 4, 125, 126, 1001, 70_001} {
			o.Size = size
			s := newScript(o, random)
			for number := range uint32(20) {
				client := random.Uint32()
				message := said(t, s, client, number)
				if o.Text && !utf8.Valid(message) {
					t.Fatalf("size %d: not UTF-8: %q", size, message)
				}
				for _, piece := range []int{1, 3, 23, 24, 25, 1000, size} {
					if known, n, wrong := heard(s, client, message, piece); !known || n != number || wrong != "" {
						t.Fatalf("size %d, pieces of %d: %v, number %d for %d, %q", size, piece, known, n, number, wrong)
					}
				}
			}
		}
	}
}

// Whatever is changed in a message is noticed, wherever it is and however the message comes in pieces.
func TestScriptNoticesEveryChange(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := newScript(Options{Size: 203, Text: true}, random)
	message := said(t, s, 7, 9)
	for i := range message {
		for _, piece := range []int{1, 17, 24, 203} {
			changed := append([]byte(nil), message...)
			changed[i] ^= 1 << random.IntN(8)
			if known, number, wrong := heard(s, 7, changed, piece); known && number == 9 && wrong == "" {
				t.Fatalf("byte %d was changed, which was not noticed (pieces of %d)", i, piece)
			}
		}
	}
	for n := range message {
		if _, _, wrong := heard(s, 7, message[:n], 50); wrong == "" {
			t.Fatalf("the message was cut to %d bytes, which was not noticed", n)
		}
	}
	if _, _, wrong := heard(s, 7, append(message, filler), 50); wrong != wrongLength {
		t.Fatalf("a byte was added: %q", wrong)
	}
	if known, _, _ := heard(s, 8, message, 50); known {
		t.Fatal("the message of another client was taken for one's own")
	}
	if known, _, _ := heard(newScript(Options{Size: 203, Text: true}, random), 7, message, 50); known {
		t.Fatal("the message of another run was taken for one's own")
	}
}

// Messages that follow each other differ in their bodies, not only in their heads.
func TestScriptVaries(t *testing.T) {
	s := newScript(Options{Size: 1024}, rand.New(rand.NewPCG(5, 6)))
	same := 0
	for i := range uint32(1000) {
		if s.place(i, 5) == s.place(i+1, 5) {
			same++
		}
		if s.place(5, i) == s.place(5, i+1) {
			same++
		}
	}
	if same > 10 {
		t.Errorf("%d of 2000 neighbours have the same body", same)
	}
}
