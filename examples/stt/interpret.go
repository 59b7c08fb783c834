package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// This file shows simultaneous translation: clients stream speech, and get what was said and its translation, also while the servers are killed.
// The servers are simulated (see internal/lab/sim/translations.go): a word stands for a sound, and its translation is the word spelled backwards.

// interpretation is what a client was told: the words that were spoken, and those of the translation.
type interpretation struct{ spoken, translated string }

// interpret shows the demonstration, and fails when a session did, or when a translation was not, to the letter, that of a server that is not
// disturbed.
func interpret(ctx context.Context, o options, out io.Writer) error {
	served, err := profile.Named(o.profile)
	if err != nil {
		return err
	}
	heard := make([]interpretation, o.clients)
	u, err := underFire(ctx, o, out, "the translation is simulated: a made-up word stands for each sound, and its translation is the word spelled backwards",
		func(u *fire, i int) (err error) {
			heard[i], err = interpreted(ctx, served, u.proxyURL, u.talks[i], o.speed, func(mark, text string) { u.board.show(i+1, u.talks[i].name, mark, text) })
			return err
		})
	if err != nil {
		return err
	}
	defer u.close()
	var wrong []error
	for i, talk := range u.talks {
		want, err := interpreted(ctx, served, u.backends[0], talk, 0, func(string, string) {})
		words := len(strings.Fields(want.translated))
		switch {
		case u.failures[i] != nil:
			wrong = append(wrong, fmt.Errorf("client %d: %w", i+1, u.failures[i]))
		case err != nil:
			wrong = append(wrong, fmt.Errorf("without the proxy: %w", err))
		case words == 0:
			wrong = append(wrong, fmt.Errorf("client %d: without the proxy, its speech has no translation, so nothing can be compared", i+1))
		case heard[i].translated != want.translated:
			wrong = append(wrong, fmt.Errorf("client %d: the translation is %q; without the proxy it is %q", i+1, heard[i].translated, want.translated))
		default:
			fmt.Fprintf(out, "client %d: the translation of %s is equal, to the letter; %s\n", i+1, figures.Plural(words, "word"), heard[i].against(want))
		}
	}
	return interrupted(ctx, errors.Join(append(wrong, u.enough())...))
}

// against says how the transcript compares with that of a server that is not disturbed: where the servers change, words that came ahead of their
// translation may come twice or be missing.
func (h interpretation) against(want interpretation) string {
	if h.spoken == want.spoken {
		return "so is the transcript"
	}
	return fmt.Sprintf("the transcript has %s, and without the proxy %d", figures.Plural(len(strings.Fields(h.spoken)), "word"), len(strings.Fields(want.spoken)))
}

// interpreted streams a clip as the profile's clients do, calls show for each text, and returns them all. The speed is a multiple of real time; 0 is
// for as fast as the server takes it.
func interpreted(ctx context.Context, served *profile.Profile, url string, c clip, speed float64, show func(mark, text string)) (heard interpretation, err error) {
	recording, err := speaker.NewRecording(served, &wav.Audio{SampleRate: sampleRate, Channels: 1, BitsPerSample: 16, PCM: c.pcm}, time.Hour, "")
	if err != nil {
		return heard, err
	}
	target, err := handshake.ParseTarget(url)
	if err != nil {
		return heard, err
	}
	target.AddQuery(served.Script().Query)
	established, err := target.Dial(ctx)
	if err != nil {
		return heard, err
	}
	conn := speaker.NewConn(established, messageTimeout)
	defer context.AfterFunc(ctx, conn.Abort)()
	defer conn.Hang()
	_, err = recording.Speak(ctx, &listener{conn, func(mark, text string) {
		show(mark, text)
		if mark == spoken {
			heard.spoken += text
		} else {
			heard.translated += text
		}
	}}, speaker.Options{Pace: speed, Token: rand.Uint64()})
	return heard, err
}

// messageTimeout is how long a server may take for a message.
const messageTimeout = 30 * time.Second

// What a text is.
const (
	spoken     = "..."
	translated = "  ="
)

// listener is a connection whose texts are shown as they come.
type listener struct {
	*speaker.Conn
	show func(mark, text string)
}

// Receive implements speaker.Line.
func (l *listener) Receive(until time.Time) (speaker.Message, error) {
	m, err := l.Conn.Receive(until)
	var said struct{ Type, Delta string }
	if err == nil && json.Unmarshal(m.Payload, &said) == nil && said.Delta != "" {
		mark := spoken
		if said.Type == "session.output_transcript.delta" {
			mark = translated
		}
		l.show(mark, said.Delta)
	}
	return m, err
}
