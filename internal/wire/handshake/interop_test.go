package handshake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// readFrame reads one frame from the bytes that came early and those that follow.
func readFrame(r io.Reader) (frame.Header, []byte, error) {
	var wire []byte
	for {
		h, size, err := frame.ParseHeader(wire)
		if err != nil {
			return h, nil, err
		}
		if size > 0 {
			payload := make([]byte, h.Length)
			_, err := io.ReadFull(r, payload)
			frame.ApplyMask(payload, h.Mask)
			return h, payload, err
		}
		var one [1]byte
		if _, err := io.ReadFull(r, one[:]); err != nil {
			return h, nil, err
		}
		wire = append(wire, one[0])
	}
}

// Servers made with other libraries, which first send a greeting, so that a frame comes right after the answer, and then echo.
func servers(t *testing.T) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"coder": func(w http.ResponseWriter, r *http.Request) {
			c, err := coder.Accept(w, r, &coder.AcceptOptions{Subprotocols: []string{"stt.v1"}, CompressionMode: coder.CompressionContextTakeover})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.CloseNow()
			if err := c.Write(r.Context(), coder.MessageText, []byte("ready")); err != nil {
				t.Error(err)
			}
			kind, message, err := c.Read(r.Context())
			if err != nil {
				t.Error(err)
			}
			if err := c.Write(r.Context(), kind, message); err != nil {
				t.Error(err)
			}
		},
		"gorilla": func(w http.ResponseWriter, r *http.Request) {
			upgrader := gorilla.Upgrader{Subprotocols: []string{"stt.v1"}, EnableCompression: true}
			c, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if err := c.WriteMessage(gorilla.TextMessage, []byte("ready")); err != nil {
				t.Error(err)
			}
			kind, message, err := c.ReadMessage()
			if err != nil {
				t.Error(err)
			}
			if err := c.WriteMessage(kind, message); err != nil {
				t.Error(err)
			}
		},
	}
}

func TestOurClientWithOtherServers(t *testing.T) {
	for name, handler := range servers(t) {
		for _, protocol := range []string{"", "stt.v1"} {
			for _, secured := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s TLS %v", name, protocol, secured), func(t *testing.T) {
					server := httptest.NewUnstartedServer(handler)
					defer server.Close()
					var ca string
					if secured {
						ca = startTLS(t, server)
					} else {
						server.Start()
					}
					target := targetOf(t, server, "/v1/stt")
					target.Protocol = protocol
					if secured {
						target.SetTLS(secure.Settings{CA: ca})
					}
					talk(t, target)
				})
			}
		}
	}
}

// startTLS starts a server with a certificate for 127.0.0.1, and returns the file with its authority's.
func startTLS(t *testing.T, server *httptest.Server) (ca string) {
	t.Helper()
	authority := securetest.NewAuthority(t)
	server.TLS, _ = authority.Loopback()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return authority.File()
}

func targetOf(t *testing.T, server *httptest.Server, path string) *Target {
	t.Helper()
	return parsed(t, strings.Replace(server.URL, "http", "ws", 1)+path)
}

// talk reads a server's greeting, and has it echo a message.
func talk(t *testing.T, target *Target) {
	t.Helper()
	established := dialed(t, target)
	if established.Protocol != target.Protocol {
		t.Errorf("protocol %q", established.Protocol)
	}
	_ = established.Conn.SetDeadline(time.Now().Add(testTimeout))
	stream := io.MultiReader(bytes.NewReader(established.Early), established.Conn)
	if h, payload, err := readFrame(stream); err != nil || h.Opcode != frame.Text || string(payload) != "ready" {
		t.Fatalf("greeting: %+v, %q, %v", h, payload, err)
	}
	message := bytes.Repeat([]byte("音声"), 100)
	sent := frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true, Mask: 0x01020304}, message)
	if _, err := established.Conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if h, payload, err := readFrame(stream); err != nil || h.Opcode != frame.Binary || !bytes.Equal(payload, message) {
		t.Errorf("echo: %+v, %q, %v", h, payload, err)
	}
}

// A dial fails if the server does not choose the subprotocol that was asked for.
func TestOtherServersWithoutTheSubprotocol(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&gorilla.Upgrader{}).Upgrade(w, r, nil)
		if err == nil {
			_ = c.Close()
		}
	}))
	defer server.Close()
	target := targetOf(t, server, "")
	target.Protocol = "stt.v1"
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "stt.v1") {
		t.Error(err)
	}
}

func TestOurClientIsToldNo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "all streams are in use", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	target := targetOf(t, server, "")
	_, err := target.Dial(t.Context())
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 503 || status.Text != "" && status.Text != "all streams are in use" {
		t.Error(err)
	}
}

// ours starts a server made of this package that accepts a valid request, and echoes one message.
func ours(t *testing.T) (address string) {
	t.Helper()
	return acceptOne(t, func(nc net.Conn) {
		req, err := ReadRequest(nc, DefaultMaxHead)
		if err != nil {
			t.Error(err)
			return
		}
		if refusal := req.Check(); refusal != nil {
			Refuse(nc, refusal)
			return
		}
		protocol := ""
		if req.Offers("stt.v1") {
			protocol = "stt.v1"
		}
		_, _ = nc.Write(req.AppendAccept(nil, protocol))
		h, payload, err := readFrame(io.MultiReader(bytes.NewReader(req.Early), nc))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = nc.Write(frame.Append(nil, frame.Header{Fin: true, Opcode: h.Opcode}, payload))
		_, _ = io.Copy(io.Discard, nc)
	})
}

func TestOtherClientsWithOurServer(t *testing.T) {
	message := strings.Repeat("音声", 100)
	t.Run("coder", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		c, _, err := coder.Dial(ctx, "ws://"+ours(t)+"/v1/stt", &coder.DialOptions{
			Subprotocols: []string{"other", "stt.v1"}, CompressionMode: coder.CompressionContextTakeover,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if c.Subprotocol() != "stt.v1" {
			t.Errorf("subprotocol %q", c.Subprotocol())
		}
		if err := c.Write(ctx, coder.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if kind, got, err := c.Read(ctx); err != nil || kind != coder.MessageText || string(got) != message {
			t.Errorf("%v, %q, %v", kind, got, err)
		}
	})
	t.Run("gorilla", func(t *testing.T) {
		dialer := gorilla.Dialer{Subprotocols: []string{"stt.v1"}, EnableCompression: true, HandshakeTimeout: testTimeout}
		c, _, err := dialer.DialContext(t.Context(), "ws://"+ours(t)+"/v1/stt", http.Header{"Origin": {"https://app.example"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Subprotocol() != "stt.v1" {
			t.Errorf("subprotocol %q", c.Subprotocol())
		}
		if err := c.WriteMessage(gorilla.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if kind, got, err := c.ReadMessage(); err != nil || kind != gorilla.TextMessage || string(got) != message {
			t.Errorf("%v, %q, %v", kind, got, err)
		}
	})
	t.Run("net/http", func(t *testing.T) {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("http://" + ours(t) + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); response.StatusCode != 426 || err != nil || !strings.Contains(string(body), "WebSocket") {
			t.Errorf("%d, %q, %v", response.StatusCode, body, err)
		}
	})
}

func TestOurClientWithOurServer(t *testing.T) {
	target := parsed(t, "ws://"+ours(t))
	target.Protocol = "stt.v1"
	established := dialed(t, target)
	_, _ = established.Conn.Write(frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Text, Masked: true}, []byte("hello")))
	if _, payload, err := readFrame(io.MultiReader(bytes.NewReader(established.Early), established.Conn)); err != nil || string(payload) != "hello" {
		t.Errorf("%q, %v", payload, err)
	}
}
