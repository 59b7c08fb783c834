package replay

import (
	"bytes"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// keep appends a whole message with a payload of size times b.
func keep(t testing.TB, w *Window, size int, b byte) {
	t.Helper()
	if !w.Append(frame.AppendMessage(nil, frame.Binary, true, bytes.Repeat([]byte{b}, size), true)) {
		t.Fatalf("no memory for a message of %d bytes", size)
	}
	w.End(profile.Entry{Kind: profile.EntryAudio})
}

func TestArenaLimit(t *testing.T) {
	a := NewArena(10 * chunkSize)
	var w Window
	w.SetArena(a, Owner{})
	keep(t, &w, 6*(chunkSize-linkSize), 1) // with its headers, 7 chunks
	if a.Used() != 7*chunkSize || w.Memory() != a.Used() {
		t.Fatalf("used %d, memory %d", a.Used(), w.Memory())
	}
	if w.Append(make([]byte, 4*chunkSize)) {
		t.Fatal("the arena gave more than its limit")
	}
	if a.Used() != 7*chunkSize || w.Next() != 1 || w.Size() != int64(w.Length(0)) {
		t.Fatalf("after a refusal: used %d, next %d, size %d", a.Used(), w.Next(), w.Size())
	}
	op, payload := w.Payload(nil, 0)
	if op != frame.Binary || len(payload) != 6*(chunkSize-linkSize) || bytes.Count(payload, []byte{1}) != len(payload) {
		t.Fatalf("the refusal changed the message: %v, %d bytes", op, len(payload))
	}
	a.SetLimit(12 * chunkSize)
	if !w.Append(make([]byte, 4*chunkSize)) {
		t.Fatal("no memory below a higher limit")
	}
	w.Free()
	if a.Used() != 0 || w.Memory() != 0 || w.Size() != 0 || w.First() != 1 || w.Next() != 1 {
		t.Fatalf("after Free: used %d, memory %d, size %d, messages %d to %d", a.Used(), w.Memory(), w.Size(), w.First(), w.Next())
	}
	a.SetLimit(0)
	if w.Append([]byte{1}) {
		t.Fatal("a limit of 0 gives memory")
	}
}

func TestLongestMessage(t *testing.T) {
	a := NewArena(1 << 40)
	var w Window
	w.SetArena(a, Owner{})
	if !w.Append(make([]byte, maxMessage-1)) || !w.Append([]byte{1}) {
		t.Fatalf("refused %d bytes", maxMessage)
	}
	if w.Append([]byte{1}) {
		t.Fatalf("took more than %d bytes in one message", maxMessage)
	}
	if n := w.End(profile.Entry{To: 1 << 22}); n != 0 || w.Size() != maxMessage || w.Length(0) != maxMessage || w.Entry(0).To != 1<<22 {
		t.Fatalf("message %d, %d bytes, %+v", n, w.Size(), w.Entry(0))
	}
	w.Drop(1)
	if a.Used() != chunkSize {
		t.Fatalf("%d bytes in use after all was dropped", a.Used())
	}
}

func TestTrim(t *testing.T) {
	a := NewArena(1 << 30)
	var early, late Window
	early.SetArena(a, Owner{})
	late.SetArena(a, Owner{})
	keep(t, &early, slabSize/2, 1)
	for range 10 {
		keep(t, &late, slabSize, 2)
	}
	most := a.Held()
	if most < 10*slabSize {
		t.Fatalf("holds %d", most)
	}
	a.Trim()
	a.Trim()
	if a.Held() != most {
		t.Fatal("gave away slabs in use")
	}
	late.Free()
	a.Trim()
	if a.Held() != most {
		t.Fatal("gave away slabs that were in use a moment ago")
	}
	a.Trim()
	if a.Held() != slabSize {
		t.Fatalf("holds %d, and one slab is in use", a.Held())
	}
	if _, payload := early.Payload(nil, 0); bytes.Count(payload, []byte{1}) != slabSize/2 {
		t.Fatal("lost what is kept")
	}
	for range 10 {
		keep(t, &late, slabSize, 3)
	}
	if a.Held() != most {
		t.Fatalf("holds %d after the second rush, %d after the first", a.Held(), most)
	}
}

// TestSharedArena has windows in several goroutines, each of which checks that no other one writes into its memory.
func TestSharedArena(t *testing.T) {
	a := NewArena(4 << 20)
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() {
			var w Window
			w.SetArena(a, Owner{})
			var payload []byte
			for i := range 300 {
				size := 1 + (i*7919+id*104729)%30000
				raw := frame.AppendMessage(nil, frame.Binary, true, bytes.Repeat([]byte{byte(id + 1)}, size), true)
				if w.Append(raw) {
					w.End(profile.Entry{From: profile.Position(i), To: profile.Position(i + size)})
				}
				if i%5 == 0 {
					for n := w.First(); n < w.Next(); n++ {
						_, payload = w.Payload(payload[:0], n)
						if bytes.Count(payload, []byte{byte(id + 1)}) != len(payload) {
							t.Error("a window has bytes of another one")
							return
						}
					}
					w.Drop(w.Next() - int64(i%20))
				}
				if i%100 == 99 {
					w.Free()
				}
				if id == 0 && i%10 == 0 {
					a.Trim()
				}
			}
			w.Free()
		})
	}
	wg.Wait()
	if a.Used() != 0 {
		t.Fatalf("%d bytes in use after all windows were freed", a.Used())
	}
	a.Trim()
	a.Trim()
	if a.Held() != 0 {
		t.Fatalf("holds %d bytes after all windows were freed", a.Held())
	}
}

// TestManySlabs has more slabs than one word of bits, some of which become free in between.
func TestManySlabs(t *testing.T) {
	a := NewArena(1 << 40)
	windows := make([]Window, 70) // more than one word of slabs
	for i := range windows {
		windows[i].SetArena(a, Owner{})
		keep(t, &windows[i], slabSize*95/100, byte(i))
	}
	for i := range windows {
		if i%3 == 0 {
			windows[i].Free()
			keep(t, &windows[i], slabSize*95/100, byte(i))
		}
	}
	for i := range windows {
		_, payload := windows[i].Payload(nil, windows[i].First())
		if bytes.Count(payload, []byte{byte(i)}) != len(payload) || len(payload) == 0 {
			t.Fatalf("window %d has not what it kept", i)
		}
		windows[i].Free()
	}
	if a.Used() != 0 {
		t.Fatalf("%d bytes in use", a.Used())
	}
}
