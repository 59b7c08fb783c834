// Package speech has a recording to stream to speech servers, and a client that streams it, for tests and demonstrations.
package speech

import (
	"context"
	_ "embed" // for WAV
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// WAV is a WAV file with three spoken sentences: 16 kHz, mono, 16 bits.
//
//go:embed speech.wav
var WAV []byte

// Text is what is spoken in WAV.
const Text = "The proxy lends one connection to each session. Nothing of it reaches another. Then it is free again."

// maxAnswer is the size of the largest answer of a server, in bytes.
const maxAnswer = 1 << 20

// Session is a session with a server that speaks Vosk's protocol: the client sends the sample rate, the audio and its end; the
// server answers each message of audio, and the end, with exactly one message, and closes.
type Session struct {
	URL        string
	SampleRate int
	PCM        []byte        // mono, 16 bits, little-endian
	Chunk      time.Duration // the length of the audio in a message
	// Speed is how many times faster than real time the audio is sent. 0 sends each message when the one before is answered.
	Speed float64
	// Heard is called with each answer, on the goroutine of Run. Due is when the answered audio was due to be sent; it is zero for
	// the last answer, and if Speed is 0.
	Heard func(a Answer, due time.Time)
}

// Answer is one message of the server.
type Answer struct {
	Raw     string `json:"-"` // the whole message
	Partial string // the current utterance, which may still change
	Text    string // utterances that have ended
}

// messages returns the audio of each message.
func (s *Session) messages() [][]byte {
	size := 2 * int(int64(s.SampleRate)*int64(s.Chunk)/int64(time.Second))
	return slices.Collect(slices.Chunk(s.PCM, size))
}

// Run holds the session. It returns an error if the server does not answer as it should, or if ctx ends.
func (s *Session) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, s.URL, nil)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxAnswer)
	messages := s.messages()
	t := &talk{Session: s, conn: conn, messages: messages, begin: time.Now(), answered: make(chan struct{}, len(messages)+1)}
	spoken := make(chan struct{})
	go func() {
		defer close(spoken)
		_ = t.speak(ctx) // a connection that cannot be written cannot be read either, and reading says why
	}()
	err = t.listen(ctx)
	cancel()
	<-spoken
	return err
}

// talk is a session on its connection. Its fields are static.
type talk struct {
	*Session
	conn     *websocket.Conn
	messages [][]byte
	begin    time.Time
	answered chan struct{} // gets an element for each answer
}

// due returns when a message of audio is due.
func (t *talk) due(message int) time.Time {
	return t.begin.Add(time.Duration(float64(message) * float64(t.Chunk) / t.Speed))
}

// speak sends the configuration, the audio and the end.
func (t *talk) speak(ctx context.Context) error {
	config := fmt.Sprintf(`{"config" : {"sample_rate" : %d}}`, t.SampleRate)
	if err := t.conn.Write(ctx, websocket.MessageText, []byte(config)); err != nil {
		return err
	}
	for i, message := range t.messages {
		if err := t.conn.Write(ctx, websocket.MessageBinary, message); err != nil {
			return err
		}
		if err := t.pause(ctx, i+1); err != nil {
			return err
		}
	}
	return t.conn.Write(ctx, websocket.MessageText, []byte(`{"eof" : 1}`))
}

// pause waits until the next message is due.
func (t *talk) pause(ctx context.Context, next int) error {
	var due <-chan time.Time
	answered := t.answered
	if t.Speed > 0 {
		timer := time.NewTimer(time.Until(t.due(next)))
		defer timer.Stop()
		due, answered = timer.C, nil
	}
	select {
	case <-due:
	case <-answered:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// listen receives the answers until the server closes the connection.
func (t *talk) listen(ctx context.Context) error {
	want := len(t.messages) + 1
	for n := 0; ; n++ {
		_, message, err := t.conn.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			if n != want {
				return fmt.Errorf("%d answers to %d messages", n, want)
			}
			return nil
		}
		if err != nil {
			return err
		}
		a := Answer{Raw: string(message)}
		if err := json.Unmarshal(message, &a); err != nil {
			return fmt.Errorf("unreadable answer %.80q: %w", message, err)
		}
		var due time.Time
		if t.Speed > 0 && n < len(t.messages) {
			due = t.due(n)
		}
		t.Heard(a, due)
		select {
		case t.answered <- struct{}{}:
		default: // more answers than messages: the count is wrong in the end
		}
	}
}
