package profile

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What Encode writes, DecodeEntry reads: each field, at its limits too.
func TestEntryEncoding(t *testing.T) {
	if n := reflect.TypeFor[Entry]().NumField(); n != 7 {
		t.Errorf("an entry has %d fields: encode the new one, and draw it below", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			Kind:   EntryKind(rapid.IntRange(int(EntryOther), int(EntryEnd)).Draw(t, "kind")),
			marks:  rapid.Bool().Draw(t, "marks"),
			number: rapid.Uint32().Draw(t, "number"),
			From:   Position(rapid.Int64Range(0, maxEntryTo-maxEntryAudio).Draw(t, "from")),
		}
		e.replied, e.counted = rapid.Bool().Draw(t, "replied"), rapid.Bool().Draw(t, "counted")
		e.To = e.From + Position(rapid.Int64Range(0, maxEntryAudio).Draw(t, "audio"))
		var b [EntrySize]byte
		e.Encode(b[:])
		if got := DecodeEntry(b[:]); got != e {
			t.Fatalf("got %+v, expected %+v", got, e)
		}
	})
	for _, e := range []Entry{{From: 1}, {To: maxEntryAudio + 1}, {From: -1, To: 1}, {From: maxEntryTo, To: maxEntryTo + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was encoded", e)
				}
			}()
			e.Encode(make([]byte, EntrySize))
		}()
	}
}

// A session with more audio than an entry can say is not taken over.
func TestTooMuchAudio(t *testing.T) {
	p, err := Named("vosk")
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]Position{"in all": maxEntryTo - 99, "in one message": 0} {
		tracker := NewTracker(p, "")
		tracker.received = before
		size := 100
		if before == 0 {
			size = maxEntryAudio + 1
		}
		e := tracker.ClientMessage(frame.Binary, nil, size)
		if tracker.Whole() != "the client sent too much audio" || e.Kind != EntryOther {
			t.Errorf("%s: %q, %+v", name, tracker.Whole(), e)
		}
		e.Encode(make([]byte, EntrySize))
	}
}
