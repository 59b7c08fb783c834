package sim

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

const binaryFrame = frame.Binary

// rawConn is a client that sends bytes as it is told.
type rawConn struct {
	net.Conn
	in *bufio.Reader
}

func (c *rawConn) Read(b []byte) (int, error) { return c.in.Read(b) }

func (c *rawConn) write(t testing.TB, b []byte) {
	t.Helper()
	if _, err := c.Conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// dialRaw connects and completes the opening handshake.
func dialRaw(t testing.TB, s *Server) *rawConn {
	t.Helper()
	c, response := request(t, s, upgradeRequest)
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s", response.Status)
	}
	return c
}

const upgradeRequest = "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// request sends bytes and reads the head of an HTTP answer.
func request(t testing.TB, s *Server, text string) (*rawConn, *http.Response) {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(testTimeout))
	c := &rawConn{nc, bufio.NewReader(nc)}
	c.write(t, []byte(text))
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, response
}

func clientFrame(op frame.Opcode, payload []byte) []byte {
	return frame.Append(nil, frame.Header{Fin: true, Opcode: op, Masked: true, Mask: 0x1f2e3d4c}, payload)
}

// serverHeader is the length of the header of a server's frame.
func serverHeader(size int) int {
	return len(frame.AppendHeader(nil, frame.Header{Length: int64(size)}))
}

// script is a stream of a client with everything in it, and a description of what a server says to it, whatever the
// borders of its frames.
func script() (stream []byte, want string) {
	var lines []string
	add := func(fin bool, op frame.Opcode, payload string) {
		stream = frame.Append(stream, frame.Header{Fin: fin, Opcode: op, Masked: true, Mask: uint32(len(stream)) * 0x9e3779b9}, []byte(payload))
	}
	long := strings.Repeat("0123456789", 50)
	add(true, frame.Text, "hello")
	add(true, frame.Binary, "")
	add(true, frame.Ping, "one")
	add(true, frame.Binary, long)
	add(false, frame.Text, "fragm")
	add(true, frame.Ping, "")
	add(false, frame.Continuation, "")
	add(true, frame.Pong, "nobody asked")
	add(false, frame.Continuation, "ent\xc3")
	add(true, frame.Continuation, "\xa4")
	add(true, frame.Text, strings.Repeat("é", 300))
	add(true, frame.Close, "\x0f\xa0bye")
	add(true, frame.Text, "too late")
	lines = append(lines,
		"text hello", "binary ", "binary "+long, "text fragmentä", "text "+strings.Repeat("é", 300), "pong one,", "close \x0f\xa0")
	return stream, strings.Join(lines, "\n")
}

// describe puts the messages of a server's stream one to a line, and the pongs and the close behind them.
func describe(t testing.TB, stream []byte) string {
	t.Helper()
	var lines []string
	var pongs, closing string
	var message bytes.Buffer
	scanner := frame.NewServerScanner()
	for rest := stream; len(rest) > 0; {
		h, size, err := frame.ParseHeader(rest)
		if err != nil || size == 0 || int64(len(rest)-size) < h.Length {
			t.Fatalf("the server's stream ends with %q, %v", rest, err)
		}
		if _, err := scanner.Next(rest[:size+int(h.Length)]); err != nil {
			t.Fatal(err)
		}
		payload := rest[size : size+int(h.Length)]
		rest = rest[size+int(h.Length):]
		switch h.Opcode {
		case frame.Pong:
			pongs += string(payload) + ","
			continue
		case frame.Close:
			closing = fmt.Sprintf("close %s", payload)
			continue
		case frame.Text, frame.Binary:
			message.WriteString(h.Opcode.String() + " ")
		}
		message.Write(payload)
		if h.Fin {
			lines = append(lines, message.String())
			message.Reset()
		}
	}
	return strings.Join(append(lines, "pong "+strings.TrimSuffix(pongs, ","), closing), "\n")
}
