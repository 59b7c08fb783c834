package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
)

// scripted is a WebSocket server for a test, built on a library that has nothing in common with the code under test.
type scripted struct {
	url string

	mu       sync.Mutex
	sessions sync.WaitGroup
	open     map[*websocket.Conn]struct{} // guarded by mu
}

// serve starts a server that calls session for each connection, on a goroutine of its own, and closes the connection
// when it returns. The server ends with the test.
func serve(t *testing.T, session func(*websocket.Conn)) *scripted {
	t.Helper()
	s := &scripted{open: make(map[*websocket.Conn]struct{})}
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = struct{}{}
		s.mu.Unlock()
		s.sessions.Go(func() {
			session(c)
			_ = c.Close()
		})
	}))
	t.Cleanup(func() {
		s.mu.Lock()
		for c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		server.Close()
		s.sessions.Wait()
	})
	s.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return s
}

// answering returns a session that calls answer with each message and its number on the connection.
func answering(answer func(c *websocket.Conn, number, kind int, message []byte) error) func(*websocket.Conn) {
	return func(c *websocket.Conn) {
		for number := 0; ; number++ {
			kind, message, err := c.ReadMessage()
			if err != nil || answer(c, number, kind, message) != nil {
				return
			}
		}
	}
}

// echoing is a session that answers each message with the same message.
var echoing = answering(func(c *websocket.Conn, _, kind int, message []byte) error {
	return c.WriteMessage(kind, message)
})

// hesitant echoes on its first two connections, and lets the other clients wait for the answer to their upgrade.
func hesitant(stop <-chan struct{}) http.HandlerFunc {
	var upgrader websocket.Upgrader
	var requests atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 2 {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer c.Close()
			echoing(c)
		}
	}
}
