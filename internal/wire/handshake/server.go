package handshake

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Request is a client's request for an upgrade.
type Request struct {
	*http.Request
	// Early is what the client has sent after its request: the beginning of its frames.
	Early []byte
}

// Refusal is an HTTP answer with a status other than 101. It is also an error, which says why.
type Refusal struct {
	Status int
	Reason string
	// Logged is the reason for the log, where Reason repeats what the client's query or header had; empty for Reason.
	Logged string
	Header http.Header // may be nil
	// Body is the body, whose type is in Header; nil for the reason as plain text.
	Body []byte
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", r.Status, http.StatusText(r.Status), r.Reason)
}

// Append appends the answer in its wire form to dst. It says that the connection is closed after it. more are further fields of the
// header; they must be valid.
func (r *Refusal) Append(dst []byte, more ...Field) []byte {
	connection := "close"
	if len(r.Header["Upgrade"]) > 0 { // Connection must then name it (RFC 9110, section 7.8)
		connection = "close, Upgrade"
	}
	dst = fmt.Appendf(dst, "HTTP/1.1 %d %s\r\nConnection: %s\r\n", r.Status, http.StatusText(r.Status), connection)
	body := r.Body
	if body == nil {
		dst = append(dst, "Content-Type: text/plain; charset=utf-8\r\n"...)
		body = append([]byte(r.Reason), '\n')
	}
	if r.Header.Get("X-Content-Type-Options") == "" {
		dst = append(dst, "X-Content-Type-Options: nosniff\r\n"...)
	}
	for name, values := range r.Header {
		for _, value := range values {
			dst = fmt.Appendf(dst, "%s: %s\r\n", name, value)
		}
	}
	for _, f := range more {
		dst = f.append(dst)
	}
	return append(fmt.Appendf(dst, "Content-Length: %d\r\n\r\n", len(body)), body...)
}

// ReadRequest reads a client's request from its connection. It reads at most limit bytes of the head. The caller sets the deadline. If the
// request is bad, the error is a [*Refusal] to answer with. With any other error there is no client to answer.
func ReadRequest(from io.Reader, limit int) (*Request, error) {
	req, begins := new(Request), ""
	early, err := readHead(from, limit, func(head []byte) error {
		host, refusal := checkHead(head)
		if refusal != nil {
			begins = string(head[:min(len(head), 16)])
			return refusal
		}
		reader := bufio.NewReaderSize(bytes.NewReader(head), len(head))
		parsed, err := http.ReadRequest(reader)
		if err == nil {
			err = wholeHead(reader)
		}
		if err != nil {
			begins = string(head[:min(len(head), 16)])
			return malformed(printable(unquoted(err)))
		}
		if refusal := checkTarget(parsed.URL, host); refusal != nil {
			return refusal
		}
		req.Request = parsed
		return nil
	})
	switch {
	case errors.Is(err, errHeadTooLong):
		return nil, &Refusal{
			Status: http.StatusRequestHeaderFieldsTooLarge,
			Reason: fmt.Sprintf("request line and header are longer than %d bytes", limit),
		}
	case errors.Is(err, errTLS):
		return nil, &Refusal{Status: http.StatusBadRequest, Reason: "the client speaks TLS, and this port does not: use ws:// or http://"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Refusal{Status: http.StatusRequestTimeout, Reason: "the request did not arrive in time"}
	case err != nil && origin.HasProxyHeader(append([]byte(begins), early...)): // version 2 has an empty line in it, and ends what was parsed there
		return nil, &Refusal{
			Status: http.StatusBadRequest, Reason: "unexpected PROXY header",
			Logged: "unexpected PROXY header: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header",
		}
	case err != nil:
		return nil, err
	}
	req.Early = early
	return req, nil
}

// unquoted returns the text of an error of package net/http without the part of the request or answer that it quotes. This part may contain
// a secret, and such texts are logged.
func unquoted(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	text := err.Error()
	if i := strings.IndexAny(text, `":`); i > 0 {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}

// printable returns the text with question marks in place of everything that is not printable ASCII.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// Check returns nil if the request is a valid WebSocket upgrade (RFC 6455, section 4.2.1), otherwise the refusal to answer with.
func (r *Request) Check() *Refusal {
	header := r.Header
	if !hasToken(header["Upgrade"], "websocket") || !hasToken(header["Connection"], "upgrade") {
		return &Refusal{
			Status: http.StatusUpgradeRequired,
			Reason: "this is a WebSocket service: the request must ask for an upgrade to websocket",
			Header: http.Header{"Upgrade": {"websocket"}},
		}
	}
	bad := func(format string, args ...any) *Refusal {
		return &Refusal{Status: http.StatusBadRequest, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Method != http.MethodGet:
		return bad("a WebSocket request must use GET, not %.20q", r.Method)
	case !r.ProtoAtLeast(1, 1):
		return bad("a WebSocket request must use HTTP/1.1, not %.20q", r.Proto)
	case r.Host == "":
		return bad("the Host header is missing")
	case r.ContentLength != 0:
		return bad("a WebSocket request must not have a body")
	}
	if versions := header["Sec-Websocket-Version"]; len(versions) != 1 || versions[0] != "13" {
		return &Refusal{
			Status: http.StatusUpgradeRequired,
			Reason: "Sec-WebSocket-Version must be 13",
			Header: http.Header{"Upgrade": {"websocket"}, "Sec-WebSocket-Version": {"13"}},
		}
	}
	keys := header["Sec-Websocket-Key"]
	if len(keys) != 1 {
		return bad("the request must have one Sec-WebSocket-Key header, not %d", len(keys))
	}
	if key, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(key) != 16 {
		refusal := bad("Sec-WebSocket-Key must be 16 bytes in base64, not %.40q", keys[0])
		refusal.Logged = "Sec-WebSocket-Key must be 16 bytes in base64"
		return refusal
	}
	return nil
}

// Subprotocols returns the subprotocols that the client offers, in its order.
func (r *Request) Subprotocols() []string { return listed(r.Header["Sec-Websocket-Protocol"]) }

// Offers reports whether the client offers the subprotocol.
func (r *Request) Offers(protocol string) bool { return slices.Contains(r.Subprotocols(), protocol) }

// Forwarded returns the values of a header field if it may be forwarded. name must be in canonical form. Fields that the client names
// in Connection are only for the proxy (RFC 9110, section 7.6.1).
func (r *Request) Forwarded(name string) []string {
	values := r.Header[name]
	if len(values) > 0 && hasToken(r.Header["Connection"], name) {
		return nil
	}
	return values
}

// AppendTo appends the request in its wire form to dst, with the fields of header in place of its own, and what was received behind it.
func (r *Request) AppendTo(dst []byte, header http.Header) []byte {
	b := bytes.NewBuffer(dst)
	fmt.Fprintf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Host)
	_ = header.Write(b) // a buffer takes everything
	b.WriteString("\r\n")
	return append(b.Bytes(), r.Early...)
}

// AppendAccept appends the answer that accepts the upgrade (status 101) to dst. protocol is the chosen subprotocol; empty for none. No
// extension is accepted. more are further fields of the header; they must be valid.
func (r *Request) AppendAccept(dst []byte, protocol string, more ...Field) []byte {
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = append(dst, acceptKey(r.Header.Get("Sec-WebSocket-Key"))...)
	if protocol != "" {
		dst = append(dst, "\r\nSec-WebSocket-Protocol: "...)
		dst = append(dst, protocol...)
	}
	dst = append(dst, "\r\n"...)
	for _, f := range more {
		dst = f.append(dst)
	}
	return append(dst, "\r\n"...)
}

// Refuse sends the refusal, with more fields in its header, and closes the connection. It reads what the client still sends for a
// moment, because a reset could otherwise destroy the answer before the client has read it.
func Refuse(nc net.Conn, refusal *Refusal, more ...Field) { Answer(nc, refusal.Append(nil, more...)) }

// Answer sends an HTTP answer in its wire form and closes the connection, as Refuse does.
func Answer(nc net.Conn, answer []byte) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(lingerTime))
	if _, err := nc.Write(answer); err != nil {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		discard(nc)
	}
}

// How long, and how many bytes at most, Answer reads what the client still sends.
const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// discard reads until the peer closes the connection, lingerBytes have arrived, or the deadline has passed.
func discard(nc net.Conn) {
	var buf [512]byte
	for total := 0; total < lingerBytes; {
		n, err := nc.Read(buf[:])
		if err != nil {
			return
		}
		total += n
	}
}

// RetryAfter returns a header that asks the client to try again after this many seconds.
func RetryAfter(seconds int) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(seconds)}}
}
