package sim

import (
	"fmt"
	"testing"
)

func TestTimeline(t *testing.T) {
	for _, test := range []struct {
		encoding string
		rate     int
		want     float64 // duration of 32,000 bytes
	}{
		{"linear16", 16000, 1},
		{"pcm_s16le", 8000, 2},
		{"pcm_mulaw", 8000, 4},
		{"mulaw", 16000, 2},
		{"pcm_f32le", 16000, 0.5},
		{"linear16", 2 * 16000, 0.5}, // two channels
		{"opus", 0, 1},               // not known: as 16 kHz in 16 bits
		{"", -1, 1},
		{"", 1 << 40, 1},
	} {
		times := newTimeline(test.encoding, test.rate)
		times.listen(make([]byte, 32000))
		if got := times.duration(); got != test.want {
			t.Errorf("%q at %d: got %v; want %v", test.encoding, test.rate, got, test.want)
		}
	}
}

// The words of an utterance fill its time.
func TestTimelineWords(t *testing.T) {
	times := newTimeline("linear16", 16000)
	times.listen(make([]byte, 32000))
	times.next()
	if got := fmt.Sprint(times.words("one"), times.words(" "), times.duration()); got != "[{one 1 1}] [] 0" {
		t.Errorf("without audio: got %s", got)
	}
	times.listen(make([]byte, 96000))
	want := "[{one 1 2} {two 2 3} {three 3 4}] 1 4 3"
	if got := fmt.Sprint(times.words("one two three"), times.start(), times.end(), times.duration()); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}
