package wstest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
)

// LibraryServer is a WebSocket server built on gorilla/websocket, which shares no code with this project.
type LibraryServer struct {
	URL string // static

	// Any goroutine may change these at any time; 0 is the default.
	RefuseWith atomic.Int32 // the HTTP status that refuses upgrade requests; default: they are accepted
	PlainWith  atomic.Int32 // the HTTP status of all other requests; default 200

	mu     sync.Mutex
	conns  map[*websocket.Conn]bool // guarded by mu
	counts LibraryCounts            // guarded by mu
	codes  []int                    // guarded by mu
	onOpen func(open int)           // guarded by mu; may be nil
}

// LibraryCounts are what a LibraryServer has seen.
type LibraryCounts struct {
	Open     int // connections that serve plays now
	Peak     int // the highest value of Open
	Accepted int // connections so far
}

// StartLibraryServer starts a server that ends with the test. It calls serve for each connection, on a goroutine of its own, and
// closes the connection when serve returns.
func StartLibraryServer(t testing.TB, serve func(*websocket.Conn) error) *LibraryServer {
	t.Helper()
	s := &LibraryServer{conns: make(map[*websocket.Conn]bool)}
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		status := &s.PlainWith
		if websocket.IsWebSocketUpgrade(r) {
			status = &s.RefuseWith
		}
		if status := status.Load(); status != 0 || !websocket.IsWebSocketUpgrade(r) {
			w.WriteHeader(max(int(status), http.StatusOK))
			return
		}
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
	s.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() {
		server.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		handlers.Wait()
	})
	return s
}

func (s *LibraryServer) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Open++
	s.counts.Accepted++
	s.counts.Peak = max(s.counts.Peak, s.counts.Open)
	s.changedLocked()
}

func (s *LibraryServer) changedLocked() {
	if s.onOpen != nil {
		s.onOpen(s.counts.Open)
	}
}

// OnOpen sets what is called whenever the number of open connections changes.
func (s *LibraryServer) OnOpen(call func(open int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onOpen = call
}

func (s *LibraryServer) leave(c *websocket.Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.counts.Open--
	s.changedLocked()
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
		s.codes = append(s.codes, closed.Code)
	}
}

// CloseCodes returns the codes of the close frames that the server received, as far as serve returned them as errors.
func (s *LibraryServer) CloseCodes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.codes...)
}

// Counts returns what the server has seen so far.
func (s *LibraryServer) Counts() LibraryCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Answering returns a function for StartLibraryServer that calls answer with each message and its number on the connection,
// until answer returns an error or the client leaves.
func Answering(answer func(c *websocket.Conn, number, kind int, message []byte) error) func(*websocket.Conn) error {
	return func(c *websocket.Conn) error {
		for number := 0; ; number++ {
			kind, message, err := c.ReadMessage()
			if err == nil {
				err = answer(c, number, kind, message)
			}
			if err != nil {
				return err
			}
		}
	}
}

// LibraryEcho answers each message with the same message.
var LibraryEcho = Answering(func(c *websocket.Conn, _, kind int, message []byte) error { return c.WriteMessage(kind, message) })

// LibraryDiscard reads all messages and answers none.
var LibraryDiscard = Answering(func(*websocket.Conn, int, int, []byte) error { return nil })
