package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wav"
)

const (
	chunk       = 100 * time.Millisecond // of audio in a message
	streamEvery = 6 * time.Second        // clients begin spread over this time
	pauseLimit  = time.Second            // most that a client pauses between two streams
)

// client streams speech again and again, as a device would: it opens a WebSocket, sends a configuration and then the
// audio as it becomes due, and says when the speech ends.
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

// choosePart takes one of a few pieces of the recording, so that each is streamed by many clients, whose transcripts
// must be the same.
func choosePart(audio *wav.Audio) part {
	second, total := audio.SampleRate, len(audio.PCM)/2
	from := rand.IntN(4) * second
	return part{from: from, to: min(total, from+(3+rand.IntN(3))*second)}
}

// stream has one session and returns the transcript of its audio.
func (c *client) stream(ctx context.Context, p part) (string, error) {
	conn, _, err := websocket.Dial(ctx, c.url, nil)
	if err != nil {
		return "", err
	}
	defer conn.CloseNow()
	config := fmt.Sprintf(`{"config" : {"sample_rate" : %d}}`, c.audio.SampleRate)
	if err := conn.Write(ctx, websocket.MessageText, []byte(config)); err != nil {
		return "", err
	}
	// Answers are read while audio is sent; each chunk gets one, and the end gets the last.
	due := make(chan time.Time, 256)
	heard := make(chan heard, 1)
	go func() { heard <- c.listen(ctx, conn, due) }()
	err = c.speak(ctx, conn, p, due)
	result := <-heard
	return result.text, errors.Join(err, result.err)
}

// heard is what became of listening.
type heard struct {
	text string
	err  error
}

// speak sends the audio as it becomes due, and the end.
func (c *client) speak(ctx context.Context, conn *websocket.Conn, p part, due chan<- time.Time) error {
	defer close(due)
	pcm := c.audio.PCM[2*p.from : 2*p.to]
	size := 2 * c.audio.SampleRate * int(chunk/time.Millisecond) / 1000
	next := time.Now()
	for len(pcm) > 0 {
		n := min(size, len(pcm))
		due <- next
		if err := conn.Write(ctx, websocket.MessageBinary, pcm[:n]); err != nil {
			return err
		}
		pcm = pcm[n:]
		next = next.Add(chunk)
		if !sleep(ctx, time.Until(next)) {
			return ctx.Err()
		}
	}
	return conn.Write(ctx, websocket.MessageText, []byte(`{"eof" : 1}`))
}

// listen collects the transcript until the server ends the session.
func (c *client) listen(ctx context.Context, conn *websocket.Conn, due <-chan time.Time) heard {
	text := ""
	for {
		_, message, err := conn.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return heard{text: text}
		}
		if err != nil {
			return heard{err: err}
		}
		if sent, ok := <-due; ok {
			c.results.answered(time.Since(sent))
		}
		var answer struct{ Partial, Text string }
		if err := json.Unmarshal(message, &answer); err != nil {
			return heard{err: fmt.Errorf("unreadable answer %.80q: %w", message, err)}
		}
		if answer.Text != "" {
			text = joinText(text, answer.Text)
		}
		if shown := answer.Partial + answer.Text; shown != "" {
			c.results.transcript(c.number, shown, answer.Text != "")
		}
	}
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// sleep waits, and returns false when the context ended.
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
