package load

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// tone is 240 ms of audio whose samples all differ, loud for the most part.
func tone() *wav.Audio {
	const rate = 8000
	a := &wav.Audio{SampleRate: rate, Channels: 1, BitsPerSample: 16}
	for i := range rate * 24 / 100 {
		v := uint16(i)
		if i/480%2 == 0 {
			v |= 0x3000
		}
		a.PCM = append(a.PCM, byte(v), byte(v>>8))
	}
	return a
}

// streaming are options for two clients that stream the tone in messages of 20 ms: 12 of audio and one at the end.
func streaming(url string) Options {
	return Options{
		URLs: []string{url}, Connections: 2, Audio: tone(), Chunk: 20 * time.Millisecond,
		Config: `{"config" : {"sample_rate" : 8000}}`, Duration: time.Hour, Drain: 20 * time.Second,
		ProgressInterval: 10 * time.Millisecond,
	}
}

// stream runs a load until that number of sessions are complete.
func stream(t *testing.T, o Options, sessions int64) *Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := Run(ctx, o, func(p Progress) {
		if p.Sessions >= sessions {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	return r
}

func TestStreamsSpeechToTheSimulatedServer(t *testing.T) {
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := stream(t, streaming(server.URL()), 4)
	if err := r.Err(); err != nil {
		t.Errorf("%v, %v", err, r.Errors)
	}
	if r.Complete < 4 || r.Partials == 0 || r.Finals < r.Complete {
		t.Errorf("%+v; want 4 sessions or more, partials, and a final for each session", r.Figures)
	}
	if r.Received != r.Sent || r.Partials+r.Finals != r.Received+2 {
		t.Errorf("sent %d, received %d, answers %+v", r.Sent, r.Received, r.Figures)
	}
	if r.FirstEcho.Count() != 2 {
		t.Errorf("%d first echoes", r.FirstEcho.Count())
	}
}

// recogniser is a session of a server that sends what say returns for each piece of audio and for the end.
func recogniser(heard func(audio []byte), say func(session int64, number int) []string) func(*websocket.Conn) error {
	var sessions atomic.Int64
	return func(c *websocket.Conn) error {
		session := sessions.Add(1)
		number, all := 0, []byte(nil)
		return wstest.Answering(func(c *websocket.Conn, _, kind int, message []byte) error {
			end := kind == websocket.TextMessage && string(message) == endOfAudio
			if kind == websocket.TextMessage && !end {
				return nil
			}
			if kind == websocket.BinaryMessage {
				all = append(all, message...)
			}
			for _, text := range say(session, number) {
				if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
					return err
				}
			}
			number++
			if end {
				if heard != nil {
					heard(all)
				}
				return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
			}
			return nil
		})(c)
	}
}

func TestStreamsTheWholeRecordingAtItsPace(t *testing.T) {
	var whole atomic.Int64
	pcm := tone().PCM
	s := wstest.StartLibraryServer(t, recogniser(func(audio []byte) {
		switch {
		case bytes.Equal(audio, pcm):
			whole.Add(1)
		case !bytes.HasPrefix(pcm, audio):
			t.Errorf("the server heard %d bytes that are not the beginning of the recording", len(audio))
		}
	}, func(int64, int) []string { return []string{`{"partial" : "a"}`} }))
	o := streaming(s.URL)
	r := stream(t, o, 4)
	if err := r.Err(); err != nil {
		t.Errorf("%v, %v", err, r.Errors)
	}
	// The end of the run may cut off a recording after its last audio. Then the server heard all of it, but it does not count.
	if got := whole.Load(); got < r.Complete || got > r.Complete+int64(o.Connections) {
		t.Errorf("the server heard %d whole recordings, the clients sent %d", got, r.Complete)
	}
	if least := 2 * length(o.Audio); r.Duration < least {
		t.Errorf("two sessions of each client took %s; the recording takes %s", r.Duration, least)
	}
}

// What can be wrong with a speech server's answers is noticed and counted as what it is.
func TestNoticesWrongTranscripts(t *testing.T) {
	partial, final := []string{`{"partial" : "one"}`}, []string{`{"text" : "one"}`}
	right := func(number int) []string {
		if number == 5 || number == 12 {
			return final
		}
		return partial
	}
	for name, c := range map[string]struct {
		say                 func(session int64, number int) []string
		lost, mixed, failed int64
		kind                string
	}{
		"all is well": {
			say: func(_ int64, number int) []string { return right(number) },
		},
		"one session's final differs": {
			say: func(session int64, number int) []string {
				if session == 3 && number == 5 {
					return []string{`{"text" : "two"}`}
				}
				return right(number)
			},
			mixed: 1, kind: otherFinals,
		},
		"one session's final is missing": {
			say: func(session int64, number int) []string {
				if session == 3 && number == 5 {
					return partial
				}
				return right(number)
			},
			mixed: 1, kind: otherFinals,
		},
		"an answer is dropped": {
			say: func(session int64, number int) []string {
				if session == 3 && number == 9 {
					return nil
				}
				return right(number)
			},
			lost: 1, kind: missing,
		},
		"an answer is unreadable": {
			say: func(session int64, number int) []string {
				if session == 3 && number == 9 {
					return []string{"what?"}
				}
				return right(number)
			},
			mixed: 1, kind: unreadable,
		},
		"an answer too many": {
			say: func(session int64, number int) []string {
				if session == 3 && number == 12 {
					return []string{final[0], partial[0]}
				}
				return right(number)
			},
			mixed: 1, kind: unasked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stream(t, streaming(wstest.StartLibraryServer(t, recogniser(nil, c.say)).URL), 6)
			if r.Lost != c.lost || r.Mixed != c.mixed || r.Failed != c.failed || (c.kind != "" && r.Errors[c.kind] != 1) {
				t.Errorf("lost %d, mixed %d, failed %d, %v; want %d, %d, %d, %q",
					r.Lost, r.Mixed, r.Failed, r.Errors, c.lost, c.mixed, c.failed, c.kind)
			}
		})
	}
}

func TestSpeechServerThatClosesEarlyFails(t *testing.T) {
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, number, _ int, _ []byte) error {
		if number < 5 {
			return c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"partial" : "%d"}`, number))
		}
		return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	}))
	o := streaming(s.URL)
	o.Config = ""
	r := mustRun(t, o)
	if r.Failed != 2 || r.Errors["closed with 1000"] != 2 {
		t.Errorf("failed %d, %v", r.Failed, r.Errors)
	}
}
