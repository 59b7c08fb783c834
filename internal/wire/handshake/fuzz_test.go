package handshake

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"
)

// rawHeader finds a header's values in a head, using only string functions. It joins continued lines, which are obsolete, as net/http
// does.
func rawHeader(head, name string) (values []string) {
	for line := range strings.SplitSeq(unfold(head), "\n") {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if ok && strings.EqualFold(key, name) {
			values = append(values, strings.Trim(value, " \t"))
		}
	}
	return values
}

func unfold(head string) string {
	var b strings.Builder
	for i, line := range strings.Split(head, "\n") {
		switch {
		case i == 0:
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"):
			b.WriteByte(' ')
			line = strings.TrimLeft(line, " \t")
		default:
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight(line, "\r"))
	}
	return b.String()
}

func containsToken(values []string, token string) bool {
	return strings.Contains(","+strings.ToLower(strings.NewReplacer(" ", "", "\t", "").Replace(strings.Join(values, ",")))+",", ","+token+",")
}

// tokensOnly reports whether the values are lists of only tokens. At anything else, gorilla/websocket stops reading the list, while
// this package continues after the next comma; the difference does not matter.
func tokensOnly(values []string) bool {
	for _, item := range strings.Split(strings.Join(values, ","), ",") {
		item = strings.Trim(item, " \t")
		if item == "" || strings.ContainsFunc(item, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
		}) {
			return false
		}
	}
	return true
}

// FuzzRequest checks, for whatever arrives and wherever it is cut, that nothing panics, that there is one well-formed answer, and that
// only what a much simpler parser takes for a WebSocket request is accepted.
func FuzzRequest(f *testing.F) {
	f.Add(plainRequest+"\x81\x80", uint16(0))
	f.Add(strings.ToLower(plainRequest), uint16(10))
	f.Add(plainRequest[:70], uint16(30))
	f.Add(with("Origin: https://x", "Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Extensions: permessage-deflate"), uint16(100))
	f.Add(with("Content-Length: 5", "Transfer-Encoding: chunked"), uint16(1))
	f.Add(with("Sec-WebSocket-Key: "+sampleKey), uint16(1))
	f.Add(edit(f, "Connection: Upgrade", "Connection: keep-alive,\r\n Upgrade"), uint16(60))
	f.Add(edit(f, "Connection: Upgrade", "Connection: keep-al\x80ve, Upgrade"), uint16(60))
	f.Add(edit(f, "Connection: Upgrade", "Connection: , close,, Upgrade"), uint16(60))
	f.Add(edit(f, "Version: 13", "Version: 8"), uint16(0))
	f.Add(edit(f, sampleKey, "c2hvcnQ="), uint16(0))
	f.Add(edit(f, "GET", "P\xffST"), uint16(0))
	f.Add(edit(f, "HTTP/1.1", "HTTP/1.0"), uint16(0))
	f.Add(edit(f, "Host: proxy.example\r\n", "\n\n"), uint16(0))
	f.Add("\r\n\r\n", uint16(0))
	f.Add("GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1100), uint16(600))
	const limit = 1000
	f.Add(strings.Repeat("x", limit-1), uint16(600))
	f.Add(strings.Repeat("x", limit), uint16(600))
	f.Add(strings.Repeat("x", limit+1), uint16(limit))
	f.Fuzz(func(t *testing.T, text string, cut uint16) {
		at := min(int(cut), len(text))
		nc := arrive(text[:at], text[at:])
		req, err := ReadRequest(nc, limit)
		headEnd := strings.Index(text, "\r\n\r\n")
		tooLong := headEnd < 0 && len(text) >= limit || headEnd+4 > limit
		if err != nil {
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				if err != io.EOF && err != io.ErrUnexpectedEOF || headEnd >= 0 || tooLong {
					t.Fatal(err)
				}
				return
			}
			if (refusal.Status == 431) != tooLong || !tooLong && refusal.Status != 400 {
				t.Fatalf("%v for a head of %d bytes", refusal, headEnd+4)
			}
			checkRefusal(t, refusal)
			return
		}
		rest, _ := io.ReadAll(nc)
		if got := string(req.Early) + string(rest); got != text[headEnd+4:] {
			t.Fatalf("behind the head came %q, which became %q", text[headEnd+4:], got)
		}
		if refusal := req.Check(); refusal != nil {
			if refusal.Status != 400 && refusal.Status != 426 {
				t.Fatal(refusal)
			}
			checkRefusal(t, refusal)
			return
		}
		head := text[:headEnd+2]
		line, _, _ := strings.Cut(head, "\n")
		keys := rawHeader(head, "Sec-WebSocket-Key")
		switch {
		case !strings.HasPrefix(line, "GET ") || !strings.Contains(line, " HTTP/"):
			t.Fatalf("accepted the request line %q", line)
		case !containsToken(rawHeader(head, "Upgrade"), "websocket") || !containsToken(rawHeader(head, "Connection"), "upgrade"):
			t.Fatalf("accepted without an upgrade: %q", head)
		case len(keys) != 1:
			t.Fatalf("accepted with the keys %q", keys)
		case strings.Join(rawHeader(head, "Sec-WebSocket-Version"), ",") != "13":
			t.Fatalf("accepted another version: %q", head)
		case tokensOnly(req.Header["Upgrade"]) && tokensOnly(req.Header["Connection"]) && !gorilla.IsWebSocketUpgrade(req.Request):
			t.Fatalf("gorilla/websocket sees no upgrade: %q", head)
		}
		if raw, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(raw) != 16 {
			t.Fatalf("accepted the key %q", keys[0])
		}
		sum := sha1.Sum([]byte(keys[0] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		protocol := ""
		if offers := listed(req.Header["Sec-Websocket-Protocol"]); len(offers) > 0 {
			protocol = offers[0] // what a proxy without opinions would choose
		}
		response, _ := answer(t, req.AppendAccept(nil, protocol))
		if response.StatusCode != 101 || response.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
			t.Fatalf("answer %d, %v", response.StatusCode, response.Header)
		}
		want := 3
		if protocol != "" {
			want = 4
		}
		if len(response.Header) != want || response.Header.Get("Sec-WebSocket-Protocol") != protocol {
			t.Fatalf("header of the answer: %v", response.Header)
		}
	})
}
