package frame

import (
	"bytes"
	"strings"
	"testing"
)

// traffic is what a proxy reads at once from clients of a speech service.
func traffic() []struct {
	name   string
	stream []byte
} {
	return []struct {
		name   string
		stream []byte
	}{
		{"text-1KiB-ASCII", masked(true, Text, strings.Repeat("The quick brown fox jumps over. ", 32))},
		{"text-1KiB-Japanese", masked(true, Text, strings.Repeat("音声認識の結果です。", 34))},
		{"binary-3200B", masked(true, Binary, strings.Repeat("\x00\x80\xff\x01", 800))},
		{"binary-64KiB", masked(true, Binary, strings.Repeat("\x00\x80\xff\x01", 16<<10))},
	}
}

func BenchmarkScanner(b *testing.B) {
	for _, test := range traffic() {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(test.stream)))
			b.ReportAllocs()
			s := NewClientScanner(1 << 20)
			for b.Loop() {
				if _, err := s.Next(test.stream); err != nil {
					b.Fatal(err)
				}
			}
			if s.Messages == 0 || !s.AtMessageBoundary() {
				b.Fatal("nothing was scanned")
			}
		})
	}
}

func BenchmarkApplyMask(b *testing.B) {
	payload := make([]byte, 1<<10)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		ApplyMask(payload, testKey)
	}
}

// Relaying a frame allocates nothing, and neither do the control frames in between.
func TestScannerDoesNotAllocate(t *testing.T) {
	for _, test := range traffic() {
		t.Run(test.name, func(t *testing.T) {
			ping := masked(true, Ping, "still there?")
			stream := join(ping, test.stream)
			s := NewClientScanner(1 << 20)
			b := make([]byte, len(stream))
			if n := testing.AllocsPerRun(100, func() {
				copy(b, stream) // the ping is unmasked in place
				for pos := 0; pos < len(b); {
					run, err := s.Next(b[pos:])
					if err != nil {
						t.Fatal(err)
					}
					pos += run.Consumed
				}
			}); n != 0 {
				t.Errorf("%v allocations per frame", n)
			}
		})
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	buf, payload := make([]byte, 0, 256), bytes.Repeat([]byte("x"), 100)
	if n := testing.AllocsPerRun(100, func() {
		_ = Append(buf, Header{Fin: true, Opcode: Ping, Masked: true, Mask: testKey}, payload)
		_ = AppendClosePayload(buf, NormalClosure, "done")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
