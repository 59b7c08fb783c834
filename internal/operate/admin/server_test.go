package admin_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
)

// limits are those of the tests, whose time is that of a bubble (testing/synctest).
var limits = admin.Limits{Header: time.Second, Request: 2 * time.Second, Answer: time.Minute, Idle: 3 * time.Second}

// pipes is a listener with one connection.
type pipes struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conn:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connected runs f in a bubble with a client of a server with that handler.
func connected(t *testing.T, handler http.HandlerFunc, f func(t *testing.T, client net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := admin.NewServer(handler, limits, slog.New(slog.DiscardHandler))
		client, conn := net.Pipe()
		listener := &pipes{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		listener.conn <- conn
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(listener)
		}()
		_ = client.SetDeadline(time.Now().Add(time.Hour)) // ends a test that hangs
		f(t, client)
		_ = client.Close()
		_ = server.Close()
		<-served
	})
}

// cutAfter sends a text, and expects that the connection is closed after that time. It returns what the server said.
func cutAfter(t *testing.T, client net.Conn, text string, limit time.Duration) string {
	t.Helper()
	begun := time.Now()
	go func() { _, _ = io.WriteString(client, text) }()
	said, err := io.ReadAll(client)
	took := time.Since(begun)
	if errors.Is(err, os.ErrDeadlineExceeded) || took < limit || took > limit+time.Second { // the server waits a moment so that the answer arrives
		t.Errorf("closed after %v, %v; want %v", took, err, limit)
	}
	return string(said)
}

func refuse(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

const halfBody = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf of it"

// A request that does not arrive as a whole is cut, whether its handler asks for the body or not.
func TestStalledRequests(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		text    string
		limit   time.Duration
		says    string
	}{
		{"header", refuse, "GET / HTTP/1.1\r\nHost: lo", limits.Header, ""},
		{"body that is read", func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
				w.WriteHeader(http.StatusRequestTimeout)
			}
		}, halfBody, limits.Request, "HTTP/1.1 408 "},
		{"body that is not read", refuse, halfBody, limits.Request, "HTTP/1.1 401 "},
		{"no next request", refuse, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", limits.Idle, "HTTP/1.1 401 "},
		{"header that is too long", refuse, "GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 100<<10), 0, "HTTP/1.1 431 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			connected(t, c.handler, func(t *testing.T, client net.Conn) {
				if said := cutAfter(t, client, c.text, c.limit); !strings.HasPrefix(said, c.says) {
					t.Errorf("got %q; want %s", said, c.says)
				}
			})
		})
	}
}

// Who waits for a change, after the request has arrived, is not cut by the limit for requests.
func TestWaitingRequest(t *testing.T) {
	connected(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			t.Error("the request was ended while its handler waited")
		case <-time.After(limits.Answer - time.Second):
		}
		_, _ = io.WriteString(w, "news")
	}, func(t *testing.T, client net.Conn) {
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "news" {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// A client that does not read its answer does not keep the handler for ever.
func TestUnreadAnswer(t *testing.T) {
	gone := make(chan error, 1)
	connected(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				gone <- err
				return
			}
		}
	}, func(t *testing.T, client net.Conn) {
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(limits.Answer) // by the bubble's clock
		synctest.Wait()
		select {
		case err := <-gone:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		default:
			t.Error("it writes still")
		}
	})
}
