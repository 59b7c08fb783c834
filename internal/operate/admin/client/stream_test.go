package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The parts of an event come together; comments and whatever has no data are skipped.
func TestEvents(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, ": hello\n\nevent: stats\nid: 7\ndata: {\"a\":\ndata:1}\n\nevent: nothing\n\ndata: plain\r\n\r\nevent: cut\ndata: off\n")
	})
	s, err := c.Stream(t.Context(), "/events", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{"stats {\"a\":\n1}", " plain"} {
		name, data, err := s.Event()
		if got := name + " " + string(data); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if name, data, err := s.Event(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %s %s, %v", name, data, err)
	}
}

// An open stream ends when its caller gives up, when its proxy goes away, and when nothing comes.
func TestStreamEnds(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "one")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/dies" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, k := range []struct {
		path    string
		silence time.Duration
		after   func()
		says    string
	}{
		{"/dies", 0, func() {}, "no proxy answers at " + c.Address() + ": unexpected EOF"},
		{"/silent", 10 * time.Millisecond, func() {}, "no proxy answers at " + c.Address() + ": the stream is silent for 10ms"},
		{"/given-up", time.Hour, cancel, context.Canceled.Error()},
	} {
		s, err := c.Stream(ctx, k.path, nil, k.silence)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := s.Line(); string(line) != "one" {
			t.Errorf("%s: %q, %v", k.path, line, err)
		}
		k.after()
		if _, err := s.Line(); err == nil || err.Error() != k.says {
			t.Errorf("%s: %v, want %s", k.path, err, k.says)
		}
		_ = s.Close()
	}
}

// No line takes all memory.
func TestLongLine(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := strings.Repeat("x", 1<<20)
		for range maxLine>>20 + 1 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	s, err := c.Stream(t.Context(), "/lines", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Line(); err == nil || !strings.Contains(err.Error(), "a line of more than 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}
