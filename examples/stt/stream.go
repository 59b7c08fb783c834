package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	chunk     = 200 * time.Millisecond // of audio in a message, as the clients of the Vosk server send
	maxAnswer = 1 << 20                // bytes
)

// answer is one message of the server.
type answer struct {
	raw     string // as it came
	Partial string // the utterance under way; it may still change
	Text    string // utterances that have ended
}

// transcript is all answers of a session, in order.
type transcript []answer

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
		if t[i].raw != want[i].raw {
			return fmt.Sprintf("answer %d is %.300q instead of %.300q", i+1, t[i].raw, want[i].raw)
		}
	}
	if len(t) != len(want) {
		return fmt.Sprintf("%d answers instead of %d", len(t), len(want))
	}
	return ""
}

// stream has one session: it sends the clip at so many times real time (0: each message as soon as the one before was
// answered), calls show for each answer, and returns them. The server must answer every message with exactly one, and
// close normally after the last.
func stream(ctx context.Context, url string, c clip, speed float64, show func(answer)) (transcript, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseNow() }() // it is closed already, but after an error
	conn.SetReadLimit(maxAnswer)

	answered := make(chan struct{}, len(c.pcm)) // never full: there are fewer messages than bytes
	sent := make(chan error, 1)
	go func() { sent <- speak(ctx, conn, c, pace{speed: speed, answered: answered}) }()
	heard, err := listen(ctx, conn, answered, show)
	cancel()
	<-sent // a connection that cannot be written to cannot be read from either, and reading tells why
	if want := c.messages() + 1; err == nil && len(heard) != want {
		err = fmt.Errorf("%d answers to %d messages", len(heard), want)
	}
	return heard, err
}

// speak sends the configuration, the audio and the end.
func speak(ctx context.Context, conn *websocket.Conn, c clip, p pace) error {
	config := fmt.Sprintf(`{"config" : {"sample_rate" : %d}}`, sampleRate)
	if err := conn.Write(ctx, websocket.MessageText, []byte(config)); err != nil {
		return err
	}
	p.next = time.Now()
	for piece := range c.pieces() {
		if err := conn.Write(ctx, websocket.MessageBinary, piece); err != nil {
			return err
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	return conn.Write(ctx, websocket.MessageText, []byte(`{"eof" : 1}`))
}

// listen collects the answers until the server closes normally.
func listen(ctx context.Context, conn *websocket.Conn, answered chan<- struct{}, show func(answer)) (transcript, error) {
	var heard transcript
	for {
		_, message, err := conn.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return heard, nil
		}
		if err != nil {
			return heard, err
		}
		a := answer{raw: string(message)}
		if err := json.Unmarshal(message, &a); err != nil {
			return heard, fmt.Errorf("unreadable answer %.80q: %w", message, err)
		}
		heard = append(heard, a)
		show(a)
		select {
		case answered <- struct{}{}:
		default: // more answers than messages, which is found in the end
		}
	}
}

// pace says when the next message is due.
type pace struct {
	speed    float64 // times real time; 0: when the message before was answered
	answered <-chan struct{}
	next     time.Time
}

func (p *pace) wait(ctx context.Context) error {
	if p.speed == 0 {
		select {
		case <-p.answered:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.next = p.next.Add(time.Duration(float64(chunk) / p.speed))
	timer := time.NewTimer(time.Until(p.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
