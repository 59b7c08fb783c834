package hunt

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// shortTimeout is how long a session waits for an answer that does not come, because the connection is used as it is.
const shortTimeout = 100 * time.Millisecond

// leaky is a relay that gives its connections to the server from one client to the next as they are: what the hunt is there
// to find.
type leaky struct {
	server *sim.Server
	idle   chan *shared
	tasks  sync.WaitGroup
	ctx    context.Context
	greets bool // the server says something at connect
}

// shared is a connection to the server, whose messages go to its present session. A greeting is repeated to each client.
type shared struct {
	conn     *websocket.Conn
	gone     chan struct{}
	greeting []Message

	mu     sync.Mutex
	client *websocket.Conn // guarded by mu
	kept   []Message       // guarded by mu: messages that came while no session had the connection
	over   bool            // guarded by mu: the server no longer sends, so the connection cannot serve a session
}

// relay runs a simulated server, and a relay with that many connections to it, until the test ends. It returns the relay's
// URL.
func relay(t *testing.T, protocol string, connections int) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	greets := []string{sim.VLLMRealtime, sim.Kyutai, sim.WhisperLiveKit, sim.RealtimeSTT, sim.AssemblyAI, sim.OpenAIRealtime, sim.KyutaiTTS, sim.SGLangRealtime, sim.SGLangOmni, sim.NVIDIARealtime, sim.OpenAITranslations}
	l := &leaky{
		server: serve(t, protocol, sim.NastyOptions{}), idle: make(chan *shared, connections), ctx: ctx,
		greets: slices.Contains(greets, protocol),
	}
	for range connections {
		l.idle <- nil // nil: dial a new one
	}
	front := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		cancel()
		front.CloseClientConnections()
		front.Close()
		l.tasks.Wait()
	})
	return strings.Replace(front.URL, "http", "ws", 1)
}

// dial opens a connection to the server.
func (l *leaky) dial(r *http.Request) (*shared, error) {
	conn, _, err := websocket.Dial(l.ctx, l.server.URL()+r.URL.RequestURI(), &websocket.DialOptions{
		Subprotocols: r.Header.Values("Sec-WebSocket-Protocol"),
	})
	if err != nil {
		return nil, err
	}
	s := &shared{conn: conn, gone: make(chan struct{})}
	if l.greets {
		kind, message, err := conn.Read(l.ctx)
		if err != nil {
			return nil, err
		}
		s.greeting = []Message{{Opcode: frame.Opcode(kind), Payload: message}}
	}
	l.tasks.Go(func() {
		defer close(s.gone)
		for {
			kind, message, err := conn.Read(l.ctx)
			if err != nil {
				s.mu.Lock()
				if s.client != nil {
					_ = s.client.Close(websocket.StatusNormalClosure, "")
				}
				s.mu.Unlock()
				_ = conn.CloseNow()
				return
			}
			s.mu.Lock()
			s.over = s.over || bytes.Contains(message, []byte("ready_to_stop"))
			if s.client == nil {
				s.kept = append(s.kept, Message{Opcode: frame.Opcode(kind), Payload: message})
			} else {
				_ = s.client.Write(l.ctx, kind, message)
			}
			s.mu.Unlock()
		}
	})
	return s, nil
}

// serve is a session.
func (l *leaky) serve(w http.ResponseWriter, r *http.Request) {
	l.tasks.Add(1)
	defer l.tasks.Done()
	client, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
	if err != nil {
		return
	}
	defer client.CloseNow()
	var s *shared
	select {
	case s = <-l.idle:
	case <-l.ctx.Done():
		return
	}
	defer func() { l.idle <- s }()
	if s != nil {
		select {
		case <-s.gone:
			s = nil
		default:
		}
	}
	if s == nil {
		if s, err = l.dial(r); err != nil {
			return
		}
	}
	s.mu.Lock()
	s.client = client
	for _, m := range append(slices.Clip(s.greeting), s.kept...) {
		_ = client.Write(l.ctx, kindOf(m), m.Payload)
	}
	s.kept = nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.client = nil
		if s.over {
			_ = s.conn.CloseNow()
		}
		s.mu.Unlock()
	}()
	for {
		kind, message, err := client.Read(l.ctx)
		if err != nil || s.conn.Write(l.ctx, kind, message) != nil {
			return
		}
	}
}

func kindOf(m Message) websocket.MessageType { return websocket.MessageType(m.Opcode) }
