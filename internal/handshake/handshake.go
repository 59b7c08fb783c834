// Package handshake speaks the opening handshake of the WebSocket protocol (RFC 6455, section 4) from both sides: it
// checks and answers a client's request, and asks a server for an upgrade. It is ordinary blocking code for goroutines
// of the control plane; what comes out of it is a plain connection, and the bytes that were received behind the handshake.
package handshake

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"sync"
)

// DefaultMaxHead is the largest head (request or status line, and header) that is read when nothing else is asked for,
// in bytes.
const DefaultMaxHead = 16 << 10

// errHeadTooLong is returned by readHead when the limit is reached before the head ends.
var errHeadTooLong = errors.New("head too long")

// errBareLineFeed is returned by wholeHead for a head that net/http takes to end before its empty line. The bytes between
// would be lost.
var errBareLineFeed = errors.New("empty line ended by a bare line feed")

// wholeHead tells whether net/http has parsed the head to its end.
func wholeHead(r *bufio.Reader) error {
	if r.Buffered() > 0 {
		return errBareLineFeed
	}
	return nil
}

// acceptKey returns the value of Sec-WebSocket-Accept that proves to have seen the key (RFC 6455, section 4.2.2).
func acceptKey(key string) string {
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	sum := sha1.Sum([]byte(key + guid))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// hasToken tells whether a header's values, each a comma-separated list, hold the token in any case of letters.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// listed returns the items of a header's values, each a comma-separated list.
func listed(values []string) []string {
	var items []string
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// headBuffers holds buffers to read heads into: most fit, and most handshakes need theirs only for a moment.
var headBuffers = sync.Pool{New: func() any { b := make([]byte, 2<<10); return &b }}

// readHead reads up to and including the empty line that ends an HTTP head, at most limit bytes of it, calls parse with
// it, and returns a copy of what was received behind it. The head is valid only during the call.
func readHead(r io.Reader, limit int, parse func(head []byte) error) (behind []byte, err error) {
	pooled := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(pooled)
	buf, n := *pooled, 0
	for {
		m, err := r.Read(buf[n:])
		from := max(0, n-3)
		n += m
		if i := bytes.Index(buf[from:n], []byte("\r\n\r\n")); i >= 0 {
			end := from + i + 4
			if end > limit {
				return nil, errHeadTooLong
			}
			if end < n {
				behind = bytes.Clone(buf[end:n])
			}
			return behind, parse(buf[:end])
		}
		if err != nil {
			if err == io.EOF && n > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if n >= limit {
			return nil, errHeadTooLong
		}
		if n == len(buf) {
			buf = append(buf, make([]byte, min(len(buf), limit+4-n))...)
		}
	}
}
