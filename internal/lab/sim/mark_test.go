package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Marks are found however the audio is cut, and wherever they begin in it.
func TestMarksSurviveCuts(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var audio []byte
		var want []Mark
		for range 1 + dice.IntN(8) {
			if dice.IntN(3) == 0 {
				audio = append(audio, wstest.Noise(byte(dice.Uint32()), dice.IntN(40))...)
			}
			m := Mark{Session: dice.Uint64N(1 << 40), Seq: uint16(dice.Uint32()), Pause: dice.IntN(2) == 0}
			audio = AppendMark(audio, m, 1)
			want = append(want, m)
		}
		var got []Mark
		var s MarkScanner
		for rest := audio; len(rest) > 0; {
			n := 1 + dice.IntN(len(rest))
			s.Scan(rest[:n], func(m Mark) { got = append(got, m) })
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v; want %v in %x", got, want, audio)
		}
	}
}

// The beginning of one block and the end of another are no mark.
func TestMarksSpliced(t *testing.T) {
	a, b := AppendMark(nil, Mark{Session: 1, Seq: 1}, 1), AppendMark(nil, Mark{Session: 2, Seq: 5}, 1)
	for cut := 1; cut < MarkSize; cut++ {
		var got []Mark
		Marks(append(append(slices.Clone(a[:cut]), b[cut:]...), b...), func(m Mark) { got = append(got, m) })
		// Up to the sequence number, or from the session on, the splice is one of the two.
		if len(got) == 0 || got[len(got)-1] != (Mark{Session: 2, Seq: 5}) {
			t.Errorf("cut at %d: got %v", cut, got)
		}
		for _, m := range got {
			if m.Session != 1 && m.Session != 2 {
				t.Errorf("cut at %d: made up %v", cut, m)
			}
		}
	}
}

func TestHearing(t *testing.T) {
	var h hearing
	for _, step := range []struct {
		mark Mark
		want string
	}{
		{Mark{Session: 17, Seq: 3}, "s17:3"},
		{Mark{Session: 17, Seq: 4}, "s17:3-4"},
		{Mark{Session: 9, Seq: 5}, "s17:3-4 s9:5"},
		{Mark{Session: 9, Seq: 7}, "s17:3-4 s9:5 s9:7"},
	} {
		h.listen(AppendMark(nil, step.mark, 3))
		if got := h.words(); got != step.want {
			t.Errorf("got %q; want %q", got, step.want)
		}
	}
	h.listen(AppendMark(nil, Mark{Session: 1, Seq: 1}, 1)[:MarkSize-1])
	h.clear()
	h.listen([]byte{0})
	if got := h.words(); got != "heard-1B" {
		t.Errorf("cleared: got %q", got)
	}
	for i := range 10 * maxRuns {
		h.listen(AppendMark(nil, Mark{Session: uint64(2 * i)}, 1))
	}
	if len(h.runs) != maxRuns {
		t.Errorf("%d runs are remembered; want %d at most", len(h.runs), maxRuns)
	}
}

func TestIdentities(t *testing.T) {
	for text, want := range map[string][]uint64{
		`{"text" : "s17:3-5 s9:0"}`:             {17, 9},
		`s1:2s3:4`:                              {1}, // the second begins within a word
		`results:3 s:4 s5 s6: ss7:1 "s8:1"`:     {8},
		`s18446744073709551615:65535`:           {1<<64 - 1},
		"\x82\xa4text\xa5s12:1\xa4type\xa4Word": {12},
		IdentityWord(44):                        {44},
	} {
		var got []uint64
		Identities([]byte(text), func(session uint64) { got = append(got, session) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v; want %v", text, got, want)
		}
	}
	for range 100 {
		session := rand.Uint64()
		var h hearing
		h.listen(AppendMark(nil, Mark{Session: session, Seq: 1}, 2))
		found := 0
		Identities(fmt.Appendf(nil, `{"partial":"%s"}`, h.words()), func(s uint64) {
			if found++; s != session {
				t.Errorf("got %d; want %d", s, session)
			}
		})
		if found != 1 {
			t.Errorf("found %d of %s", found, h.words())
		}
	}
}

// The words of a result name its chunks.
func TestChunks(t *testing.T) {
	var got []string
	Chunks([]byte(`{"text": "s17:3-5 s17:6, s9:0 s8:12-", "s4": 5}`), func(session uint64, first, last uint16) {
		got = append(got, fmt.Sprint(session, first, last))
	})
	if want := []string{"17 3 5", "17 6 6", "9 0 0", "8 12 12"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}
