package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// startCounting starts a server that numbers messages: each third one since the connection began ends an utterance.
func startCounting(t *testing.T) string {
	return startFake(t, func(ctx context.Context, conn *websocket.Conn, _ int64) {
		for n := -1; ; n++ { // the first message is the configuration
			kind, message, err := conn.Read(ctx)
			if err != nil {
				return
			}
			reply := `{"partial" : ""}`
			if n%3 == 2 {
				at := seconds(n)
				reply = fmt.Sprintf(`{"result" : [{"conf" : 1, "start" : %.2f, "end" : %.2f, "word" : "w%d"}], "text" : "w%d"}`, at, at+0.2, message[0], message[0])
			} else if kind == websocket.MessageText {
				reply = `{"text" : ""}`
			}
			if n >= 0 && conn.Write(ctx, websocket.MessageText, []byte(reply)) != nil {
				return
			}
			if kind == websocket.MessageText && n >= 0 {
				_ = conn.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	})
}

// numbered is a clip whose messages begin with their numbers.
func numbered(messages int) clip {
	c := clip{name: "numbers"}
	for i := range messages {
		c.pcm = append(c.pcm, bytes.Repeat([]byte{byte(i)}, chunkSize)...)
	}
	return c
}

func finalOf(message int) result {
	r := result{message: message, Text: fmt.Sprintf("w%d", message)}
	r.Words = append(r.Words, struct {
		Conf       float64
		Start, End float64
		Word       string
	}{1, seconds(message), seconds(message) + 0.2, r.Text})
	return r
}

func TestExplain(t *testing.T) {
	server := startCounting(t)
	finals := func(messages ...int) (all []result) {
		for _, m := range messages {
			all = append(all, finalOf(m))
		}
		return all
	}
	wrongTime := finals(2, 5, 8)
	wrongTime[1].Words[0].Start += 0.2
	for _, test := range []struct {
		name   string
		finals []result
		want   string // in the error; empty for none
	}{
		{"undisturbed", finals(2, 5, 8), ""},
		{"one is missing", finals(2, 8), "final result 2"},
		{"one comes twice", finals(2, 2, 5, 8), "final result 2"},
		{"the last is missing", finals(2, 5), "the last 1 final results are missing"},
		{"a time is wrong", wrongTime, "final result 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &reference{ctx: testContext(t), url: server, talk: numbered(10), runs: make(map[int][]result)}
			_, explained, err := r.explain(test.finals)
			switch {
			case test.want == "" && (err != nil || explained != len(test.finals)):
				t.Errorf("got %d, %v", explained, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v; want an error with %q", err, test.want)
			}
		})
	}
}

func TestKillNeedsAnotherServer(t *testing.T) {
	o := testOptions()
	o.kill, o.servers = time.Second, 1
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "-servers 2") {
		t.Errorf("got %v", err)
	}
	o.servers, o.backends = 2, []string{(&url.URL{Scheme: "ws", Host: "127.0.0.1:1"}).String()}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "-backend") {
		t.Errorf("got %v", err)
	}
}

// TestSurvive kills real recognisers in the middle of speech.
func TestSurvive(t *testing.T) {
	python := os.Getenv("STT_PYTHON")
	if python == "" {
		t.Skip("`make test-stt` runs this: it takes a Python with the requirements of examples/pocketsphinx")
	}
	o := testOptions()
	o.python, o.server, o.profile = python, "../pocketsphinx/server.py", "vosk"
	o.servers, o.clients, o.rounds, o.speed, o.kill = 4, 2, 1, 1, 4*time.Second
	var out bytes.Buffer
	if err := survive(testContext(t), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	expectOutput(t, out.String(), "kill -9 of recogniser ", "final results equal, to the letter")
}
