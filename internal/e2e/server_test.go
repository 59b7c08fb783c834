//go:build unix

package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// server is an inference server inside the test, written with gorilla/websocket.
type server struct {
	url  string
	sick atomic.Bool // what asks for /health gets 500, not 200

	mu       sync.Mutex
	conns    map[*websocket.Conn]bool
	open     int
	peak     int
	accepted int
	closes   []int          // codes of the close frames received
	counted  func(open int) // told of each change of open, if it is set before the first
}

// startServer runs a server for the time of the test. serve handles a connection up to its end.
func startServer(t testing.TB, serve func(*websocket.Conn) error) *server {
	t.Helper()
	s := &server{conns: make(map[*websocket.Conn]bool)}
	var handlers sync.WaitGroup
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			if s.sick.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return
		}
		handlers.Add(1)
		defer handlers.Done()
		s.enter()
		upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			s.leave(nil, err)
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.leave(c, serve(c)) // before the client can see the end
		_ = c.Close()
	}))
	s.url = "ws" + strings.TrimPrefix(h.URL, "http")
	t.Cleanup(func() {
		h.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		handlers.Wait()
	})
	return s
}

func (s *server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.accepted++
	s.peak = max(s.peak, s.open)
	s.count()
}

// count tells how many connections are open. It is called with the mutex held.
func (s *server) count() {
	if s.counted != nil {
		s.counted(s.open)
	}
}

func (s *server) leave(c *websocket.Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.open--
	s.count()
	if closed, ok := err.(*websocket.CloseError); ok {
		s.closes = append(s.closes, closed.Code)
	}
}

func (s *server) closeCodes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.closes...)
}

func (s *server) counts() (open, peak, accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.peak, s.accepted
}

// echoing answers every message with the same message.
func echoing(c *websocket.Conn) error {
	for {
		kind, m, err := c.ReadMessage()
		if err == nil {
			err = c.WriteMessage(kind, m)
		}
		if err != nil {
			return err
		}
	}
}

// silent reads all and says nothing.
func silent(c *websocket.Conn) error {
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			return err
		}
	}
}

// unusedAddress returns an address that nobody listens on.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// soon is a deadline for control frames.
func soon() time.Time { return time.Now().Add(patience) }
