package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

// chunk is the length of the audio in a message, as the clients of the Vosk server send it.
const chunk = 200 * time.Millisecond

// transcript is all answers of a session, in order.
type transcript []speech.Answer

// text is what was understood in the end.
func (t transcript) text() string {
	var parts []string
	for _, a := range t {
		if a.Text != "" {
			parts = append(parts, a.Text)
		}
	}
	return strings.Join(parts, " / ")
}

// difference says where the answers are others than those of want; it is empty when they are the same to the letter.
func (t transcript) difference(want transcript) string {
	for i := range min(len(t), len(want)) {
		if t[i].Raw != want[i].Raw {
			return fmt.Sprintf("answer %d is %.300q instead of %.300q", i+1, t[i].Raw, want[i].Raw)
		}
	}
	if len(t) != len(want) {
		return fmt.Sprintf("%d answers instead of %d", len(t), len(want))
	}
	return ""
}

// stream streams a clip in one session, calls show for each answer, and returns the answers. Speed is as in [speech.Session].
func stream(ctx context.Context, url string, c clip, speed float64, show func(speech.Answer)) (heard transcript, err error) {
	session := speech.Session{
		URL: url, SampleRate: sampleRate, PCM: c.pcm, Chunk: chunk, Speed: speed,
		Heard: func(a speech.Answer, _ time.Time) {
			heard = append(heard, a)
			show(a)
		},
	}
	err = session.Run(ctx)
	return heard, err
}
