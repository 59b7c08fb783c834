package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

// pieceSize is the size of the audio in a message, in bytes.
const pieceSize = 2 * sampleRate * int(chunk/time.Millisecond) / 1000

var short = clip{name: "short", pcm: make([]byte, 2*pieceSize+2)}

func TestStreamSendsAllAudioInOrder(t *testing.T) {
	c := clip{pcm: make([]byte, 3*pieceSize+100)}
	for i := range c.pcm {
		c.pcm[i] = byte(i * 7 / 5)
	}
	var got []byte
	var texts []string
	url := startFake(t, func(ctx context.Context, conn *websocket.Conn, _ int64) {
		for {
			kind, message, err := conn.Read(ctx)
			if err != nil {
				return
			}
			if kind == websocket.MessageText {
				texts = append(texts, string(message))
				if len(texts) == 1 {
					continue
				}
			} else {
				got = append(got, message...)
			}
			if conn.Write(ctx, websocket.MessageText, []byte(`{"text" : "so"}`)) != nil {
				return
			}
			if len(texts) == 2 {
				_ = conn.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	})
	for _, speed := range []float64{0, maxSpeed} {
		got, texts = nil, nil
		shown := 0
		heard, err := stream(testContext(t), url, c, speed, func(speech.Answer) { shown++ })
		if err != nil {
			t.Fatal(err)
		}
		if len(heard) != 5 || shown != 5 || heard.text() != "so / so / so / so / so" {
			t.Errorf("speed %v: %d answers, %d shown: %s", speed, len(heard), shown, heard.text())
		}
		if string(got) != string(c.pcm) {
			t.Errorf("speed %v: the server got other audio", speed)
		}
		if strings.Join(texts, "|") != `{"config" : {"sample_rate" : 16000}}|{"eof" : 1}` {
			t.Errorf("speed %v: the server was told %q", speed, texts)
		}
	}
}

func TestStreamRefuses(t *testing.T) {
	answers := func(all ...string) func(context.Context, *websocket.Conn, int64) {
		return func(ctx context.Context, conn *websocket.Conn, _ int64) {
			for _, a := range all {
				_ = conn.Write(ctx, websocket.MessageText, []byte(a)) // the client may have had enough
			}
			_ = conn.Close(websocket.StatusNormalClosure, "")
		}
	}
	for _, test := range []struct {
		name  string
		serve func(context.Context, *websocket.Conn, int64)
		want  string
	}{
		{"too few answers", answers(`{"partial" : ""}`), "1 answers to 4 messages"},
		{"too many answers", answers(`{}`, `{}`, `{}`, `{}`, `{}`), "5 answers to 4 messages"},
		{"no JSON", answers(`Done!`), `unreadable answer "Done!"`},
		{"another close code", func(_ context.Context, conn *websocket.Conn, _ int64) {
			_ = conn.Close(websocket.StatusTryAgainLater, "full")
		}, "full"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := startFake(t, test.serve)
			_, err := stream(testContext(t), url, short, maxSpeed, func(speech.Answer) {})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want an error with %q", err, test.want)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	a, b := speech.Answer{Raw: "a"}, speech.Answer{Raw: "b"}
	for _, test := range []struct {
		got, want transcript
		says      string
	}{
		{transcript{a, b}, transcript{a, b}, ""},
		{transcript{a, b}, transcript{a, a}, `answer 2 is "b" instead of "a"`},
		{transcript{a}, transcript{a, b}, "1 answers instead of 2"},
		{nil, transcript{a}, "0 answers instead of 1"},
	} {
		if says := test.got.difference(test.want); says != test.says {
			t.Errorf("%v and %v: %q instead of %q", test.got, test.want, says, test.says)
		}
	}
}
