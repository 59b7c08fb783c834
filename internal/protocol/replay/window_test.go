package replay

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// kept is a message in the plain model of a window.
type kept struct {
	op      frame.Opcode
	raw     []byte
	payload []byte
	entry   profile.Entry
}

// model is what a window must be: a slice of messages.
type model struct {
	first    int64
	messages []kept
	open     kept
}

func (m *model) size() int64 {
	size := int64(len(m.open.raw))
	for _, k := range m.messages {
		size += int64(len(k.raw))
	}
	return size
}

// check compares one message.
func (m *model) check(t rapid.TB, w *Window, i int) {
	t.Helper()
	k, number := m.messages[i], m.first+int64(i)
	if e := w.Entry(number); e != k.entry {
		t.Fatalf("entry of message %d is %+v, expected %+v", number, e, k.entry)
	}
	if n := w.Length(number); n != len(k.raw) {
		t.Fatalf("message %d has %d bytes, expected %d", number, n, len(k.raw))
	}
	var raw []byte
	w.Pieces(number, func(b []byte) { raw = append(raw, b...) })
	if !bytes.Equal(raw, k.raw) {
		t.Fatalf("message %d has other bytes", number)
	}
	op, payload := w.Payload([]byte("before"), number)
	if op != k.op || !bytes.Equal(payload, append([]byte("before"), k.payload...)) {
		t.Fatalf("message %d is a %v of %d bytes, expected a %v of %d", number, op, len(payload)-6, k.op, len(k.payload))
	}
}

// frames makes a message of this many payload bytes in this many frames.
func frames(op frame.Opcode, size, fragments int, masked bool) (raw, payload []byte) {
	payload = make([]byte, size)
	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}
	rest := payload
	for i := range fragments {
		n := len(rest)
		if i+1 < fragments {
			n = rand.IntN(len(rest) + 1)
		}
		kind := op
		if i > 0 {
			kind = frame.Continuation
		}
		raw = append(raw, frame.AppendMessage(nil, kind, i+1 == fragments, rest[:n], masked)...)
		rest = rest[n:]
	}
	return raw, payload
}

func TestWindowIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arena := NewArena(rapid.SampledFrom([]int64{1 << 30, 1 << 30, 100 << 10}).Draw(t, "limit"))
		var other Window // whose chunks lie between
		other.SetArena(arena, Owner{})
		var w Window
		w.SetArena(arena, Owner{})
		var m model
		number := func() int { return rapid.IntRange(0, len(m.messages)-1).Draw(t, "message") }
		position := profile.Position(0)
		t.Repeat(map[string]func(*rapid.T){
			"message": func(t *rapid.T) {
				size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(1900, 2100), rapid.IntRange(0, 300_000)).Draw(t, "size")
				op := rapid.SampledFrom([]frame.Opcode{frame.Text, frame.Binary}).Draw(t, "op")
				raw, payload := frames(op, size, rapid.SampledFrom([]int{1, 1, 2, 40}).Draw(t, "frames"), rapid.Bool().Draw(t, "masked"))
				for rest := raw; len(rest) > 0; {
					n := min(len(rest), rapid.SampledFrom([]int{1, 16, 2032, 65536, 1 << 20}).Draw(t, "piece"))
					if len(rest) > 5000 {
						n = max(n, 3000)
					}
					if !w.Append(rest[:n]) {
						if len(rest) == len(raw) { // nothing of it was kept
							return
						}
						w.Free()
						m.first += int64(len(m.messages))
						m.messages, m.open = nil, kept{}
						return
					}
					m.open.raw = append(m.open.raw, rest[:n]...)
					rest = rest[n:]
				}
				e := profile.Entry{Kind: profile.EntryKind(rapid.IntRange(0, 4).Draw(t, "kind")), From: position, To: position + profile.Position(size)}
				position = e.To
				if got := w.End(e); got != m.first+int64(len(m.messages)) {
					t.Fatalf("message %d ended, expected %d", got, m.first+int64(len(m.messages)))
				}
				m.messages = append(m.messages, kept{op, m.open.raw, payload, e})
				m.open = kept{}
			},
			"other": func(t *rapid.T) {
				if other.Append(make([]byte, rapid.IntRange(0, 5000).Draw(t, "size"))) {
					other.End(profile.Entry{})
				}
				other.Drop(other.Next() - 2)
			},
			"look": func(t *rapid.T) {
				if len(m.messages) == 0 {
					t.Skip()
				}
				m.check(t, &w, number())
			},
			"drop": func(t *rapid.T) {
				before := rapid.Int64Range(m.first-2, m.first+int64(len(m.messages))+2).Draw(t, "before")
				w.Drop(before)
				n := max(0, min(int(before-m.first), len(m.messages)))
				m.messages = m.messages[n:]
				m.first += int64(n)
			},
			"free": func(*rapid.T) {
				w.Free()
				m.first += int64(len(m.messages))
				m.messages = nil
				if w.Memory() != 0 {
					t.Fatal("memory after Free")
				}
			},
			"": func(*rapid.T) {
				if w.First() != m.first || w.Next() != m.first+int64(len(m.messages)) || w.Size() != m.size() {
					t.Fatalf("messages %d to %d with %d bytes, expected %d to %d with %d", w.First(), w.Next(), w.Size(), m.first,
						m.first+int64(len(m.messages)), m.size())
				}
				if used := w.Memory() + other.Memory(); used != arena.Used() {
					t.Fatalf("windows have %d bytes, the arena says %d", used, arena.Used())
				}
				if w.Memory() < w.Size() {
					t.Fatalf("%d bytes in %d", w.Size(), w.Memory())
				}
			},
		})
		for i := range m.messages {
			m.check(t, &w, i)
		}
		w.Free()
		other.Free()
		if arena.Used() != 0 {
			t.Fatalf("%d bytes in use after all was freed", arena.Used())
		}
	})
}

// TestDropUnderMessage drops what is before a message that is under way.
func TestDropUnderMessage(t *testing.T) {
	w := Window{}
	w.SetArena(NewArena(1<<20), Owner{})
	for size := chunkSize - 60; size < chunkSize+60; size++ { // the open message's entry near the end of a chunk
		first, _ := frames(frame.Binary, size, 1, true)
		second, payload := frames(frame.Text, 5000, 3, true)
		if !w.Append(first) {
			t.Fatal("no memory")
		}
		w.End(profile.Entry{})
		if !w.Append(second[:2]) {
			t.Fatal("no memory")
		}
		w.Drop(w.Next())
		if !w.Append(second[2:]) {
			t.Fatal("no memory")
		}
		number := w.End(profile.Entry{Kind: profile.EntryEnd, From: 7, To: 9})
		if op, got := w.Payload(nil, number); op != frame.Text || !bytes.Equal(got, payload) {
			t.Fatalf("after %d bytes: a %v of %d bytes", size, op, len(got))
		}
		if e := w.Entry(number); e != (profile.Entry{Kind: profile.EntryEnd, From: 7, To: 9}) {
			t.Fatalf("after %d bytes: %+v", size, e)
		}
		w.Drop(w.Next())
	}
}

// TestManyEmptyFrames has messages of nothing, and a message of very many frames of nothing.
func TestManyEmptyFrames(t *testing.T) {
	arena := NewArena(1 << 20)
	w := Window{}
	w.SetArena(arena, Owner{})
	empty := frame.AppendMessage(nil, frame.Binary, true, nil, true)
	taken := 0
	for w.Append(empty) {
		w.End(profile.Entry{From: 5, To: 5})
		taken++
	}
	// Their entries count against the limit: 6 bytes of frame and 16 of entry each.
	if taken < 45_000 || taken > 50_000 || arena.Used() > 1<<20 {
		t.Fatalf("%d empty messages in %d bytes", taken, arena.Used())
	}
	if op, payload := w.Payload(nil, int64(taken/2)); op != frame.Binary || len(payload) != 0 {
		t.Fatalf("a %v of %d bytes", op, len(payload))
	}
	w.Drop(w.Next())
	more := frame.AppendMessage(nil, frame.Text, false, nil, true)
	for range 5000 {
		if !w.Append(more) {
			t.Fatal("no memory")
		}
		more = frame.AppendMessage(more[:0], frame.Continuation, false, nil, true)
	}
	w.Append(frame.AppendMessage(nil, frame.Continuation, true, []byte("end"), true))
	if op, payload := w.Payload(nil, w.End(profile.Entry{})); op != frame.Text || string(payload) != "end" {
		t.Fatalf("a %v of %q", op, payload)
	}
}

// TestOverhead measures a window's memory while messages come and go, as a session's do: at most what is kept plus 5 %.
func TestOverhead(t *testing.T) {
	for _, c := range []struct {
		name    string
		payload int // bytes of one message
		window  int // bytes that are kept
		most    float64
	}{
		{"20 ms at 16 kHz, 100 KB", 640, 100_000, 1.05},
		{"100 ms at 16 kHz, 100 KB", 3200, 100_000, 1.05},
		{"250 ms at 16 kHz, 100 KB", 8000, 100_000, 1.05},
		{"20 ms at 16 kHz, 15 s", 640, 480_000, 1.05},
		{"100 ms at 16 kHz, 15 s", 3200, 480_000, 1.05},
		{"20 ms at 8 kHz in one byte, 15 s", 160, 120_000, 1.13}, // the entry is a tenth of such a message
	} {
		w := Window{}
		w.SetArena(NewArena(1<<30), Owner{})
		raw := frame.AppendMessage(nil, frame.Binary, true, make([]byte, c.payload), true)
		n := c.window / len(raw)
		var sum, worst float64
		rounds := 4 * n
		for i := range rounds + n {
			w.Append(raw)
			w.End(profile.Entry{})
			w.Drop(w.Next() - int64(n))
			if i >= n {
				ratio := float64(w.Memory()) / float64(w.Size())
				sum += ratio
				worst = max(worst, ratio)
			}
		}
		t.Logf("%s: %.3f times what is kept on average, %.3f at worst", c.name, sum/float64(rounds), worst)
		if mean := sum / float64(rounds); mean > c.most {
			t.Errorf("%s: memory is %.3f times what is kept", c.name, mean)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	w := Window{}
	w.SetArena(NewArena(1<<30), Owner{})
	raw := frame.AppendMessage(nil, frame.Binary, true, make([]byte, 3200), true)
	var payload []byte
	total := 0
	if n := testing.AllocsPerRun(1000, func() {
		w.Append(raw[:1000])
		w.Append(raw[1000:])
		number := w.End(profile.Entry{Kind: profile.EntryAudio, To: 3200})
		_, payload = w.Payload(payload[:0], number)
		w.Pieces(number, func(raw []byte) { total += len(raw) })
		w.Drop(number - 100)
	}); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
	if total != 1001*len(raw) {
		t.Errorf("%d bytes in pieces", total)
	}
}

// FuzzWindow keeps whatever bytes in whatever pieces, and reads them again.
func FuzzWindow(f *testing.F) {
	f.Add([]byte("\x82\x85\x01\x02\x03\x04hello\x82\xfe\x10\x00"), uint8(3), uint8(1))
	f.Add(frame.AppendMessage(nil, frame.Text, true, bytes.Repeat([]byte("x"), 5000), true), uint8(200), uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, piece, each uint8) {
		w := Window{}
		w.SetArena(NewArena(1<<20), Owner{})
		var m model
		var now []byte
		for i := 0; len(b) > 0; i++ {
			n := min(len(b), 1+int(piece)*8)
			if !w.Append(b[:n]) {
				t.Fatal("no memory")
			}
			now = append(now, b[:n]...)
			b = b[n:]
			if i%(1+int(each)) == 0 {
				w.End(profile.Entry{From: profile.Position(i), To: profile.Position(i + n)})
				m.messages = append(m.messages, kept{raw: now})
				now = nil
			}
		}
		for i, k := range m.messages {
			var raw []byte
			w.Pieces(int64(i), func(b []byte) { raw = append(raw, b...) })
			if !bytes.Equal(raw, k.raw) {
				t.Fatalf("message %d has other bytes", i)
			}
			if _, payload := w.Payload(nil, int64(i)); len(payload) > len(raw) {
				t.Fatalf("message %d has %d bytes in %d", i, len(payload), len(raw))
			}
		}
		w.Free()
	})
}
