package handshake

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

const (
	// maxRefusalBody is the most, in bytes, that is read of the body of a server's answer that is not an upgrade.
	maxRefusalBody = 16 << 10
	// refusalBodyTimeout limits the wait for that body, because a server may announce one and not send it.
	refusalBodyTimeout = time.Second
)

// StatusError is a server's HTTP answer that is not an upgrade.
type StatusError struct {
	Status int
	// Text is the beginning of the body, on one line, for logs.
	Text string
	// Header and Body are for the client whose own values the server has refused. Header lacks the fields that concern the connection
	// (RFC 9110, section 7.6.1) and the length of the body. Body is cut off after 16 KiB.
	Header http.Header
	Body   []byte

	private bool // Text may contain a client's secret
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("server answered %d %s instead of upgrading", e.Status, http.StatusText(e.Status))
	if e.Text != "" && !e.private {
		text += ": " + e.Text
	}
	return text
}

// Refusal returns the same answer for the client, with 502 for a status that refuses nothing, or that is none (RFC 9110, section 15).
func (e *StatusError) Refusal() *Refusal {
	status := e.Status
	if status < 400 || status > 599 {
		status = http.StatusBadGateway
	}
	return &Refusal{Status: status, Reason: e.Error(), Header: e.Header, Body: e.Body}
}

// newStatusError returns the error for a server's answer. early is what has arrived of its body together with the head. It
// does not repeat what was sent.
func newStatusError(response *http.Response, early []byte, nc net.Conn, sent secret.Sent) *StatusError {
	_ = nc.SetReadDeadline(time.Now().Add(refusalBodyTimeout)) // the connection is closed after this
	var err error
	var body io.Reader = io.MultiReader(bytes.NewReader(early), nc)
	switch {
	case slices.Contains(response.TransferEncoding, "chunked"):
		body = httputil.NewChunkedReader(body)
	case response.ContentLength >= 0:
		body = io.LimitReader(body, response.ContentLength)
	}
	e := &StatusError{Status: response.StatusCode, Header: response.Header.Clone()}
	e.Body, err = io.ReadAll(io.LimitReader(body, maxRefusalBody)) // with an error, as much as has arrived
	e.mask(sent, err != nil || len(e.Body) == maxRefusalBody)
	for _, named := range listed(response.Header["Connection"]) {
		e.Header.Del(named)
	}
	for _, name := range connectionFields {
		e.Header.Del(name)
	}
	text, _, _ := strings.Cut(strings.ToValidUTF8(string(e.Body[:min(len(e.Body), 120)]), ""), "\n")
	e.Text = strings.TrimSpace(text)
	return e
}

// mask hides the secrets that were sent. cut: the body may end within one.
func (e *StatusError) mask(sent secret.Sent, cut bool) {
	if len(sent) == 0 {
		return
	}
	for name, values := range e.Header {
		if sent.In(name) { // package http has changed its case
			delete(e.Header, name)
			continue
		}
		for i, value := range values {
			values[i] = sent.Mask(value, false)
		}
	}
	if e.Header.Get("Content-Encoding") != "" { // such a body cannot be searched
		e.Header.Del("Content-Encoding")
		e.Header.Del("Content-Type") // the proxy's own text takes the body's place
		e.Body = nil
		return
	}
	e.Body = []byte(sent.Mask(string(e.Body), cut))
	e.Body = e.Body[:min(len(e.Body), maxRefusalBody)]
}

// connectionFields are the fields of an answer that concern only the connection it came over.
var connectionFields = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
}
