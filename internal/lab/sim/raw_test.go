package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

const binaryFrame = frame.Binary

// dialRaw connects and completes the opening handshake.
func dialRaw(t testing.TB, s *Server) *wstest.Peer {
	t.Helper()
	p := wstest.Dial(t, s.Addr().String(), wstest.UpgradeRequest("/"))
	p.ExpectUpgrade()
	return p
}

// request sends bytes and reads the header of an HTTP response.
func request(t testing.TB, s *Server, text string) (*wstest.Peer, *http.Response) {
	t.Helper()
	p := wstest.Dial(t, s.Addr().String(), text)
	return p, p.Response()
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
