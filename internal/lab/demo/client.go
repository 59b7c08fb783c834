package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

const (
	chunk       = 100 * time.Millisecond // of audio in a message
	streamEvery = 6 * time.Second        // clients begin at different times within it
	pauseLimit  = time.Second            // the longest pause of a client between two streams
)

// client streams speech again and again, as a device does. Its fields are static.
type client struct {
	number  int
	url     string
	audio   *wav.Audio
	results *results
	wait    time.Duration // before the first stream
}

func (c *client) run(ctx context.Context) {
	pause := c.wait
	for sleep(ctx, pause) {
		pause = rand.N(pauseLimit)
		part := choosePart(c.audio)
		text, err := c.stream(ctx, part)
		if ctx.Err() != nil {
			return
		}
		c.results.finished(part, text, err)
	}
}

// part is a piece of the recording, in samples.
type part struct{ from, to int }

// choosePart returns one of a few pieces of the recording. So many clients stream the same piece, and their transcripts must be
// the same.
func choosePart(audio *wav.Audio) part {
	second, total := audio.SampleRate, len(audio.PCM)/2
	from := rand.IntN(4) * second
	return part{from: from, to: min(total, from+(3+rand.IntN(3))*second)}
}

// stream runs one session and returns the transcript of its audio.
func (c *client) stream(ctx context.Context, p part) (text string, err error) {
	session := speech.Session{
		URL: c.url, SampleRate: c.audio.SampleRate, PCM: c.audio.PCM[2*p.from : 2*p.to], Chunk: chunk, Speed: 1,
		Heard: func(a speech.Answer, due time.Time) {
			if !due.IsZero() {
				c.results.answered(time.Since(due))
			}
			if a.Text != "" {
				text = joinText(text, a.Text)
			}
			if shown := a.Partial + a.Text; shown != "" {
				c.results.transcript(c.number, shown, a.Text != "")
			}
		},
	}
	err = session.Run(ctx)
	return text, err
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// sleep waits for d. It returns false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
