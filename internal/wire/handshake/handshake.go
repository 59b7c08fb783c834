// Package handshake carries out the opening handshake of the WebSocket protocol (RFC 6455, section 4) on both sides: it
// checks and answers the request of a client, and sends a request to a server. It is ordinary blocking code, for goroutines
// outside the event loops. It returns the connection, and the bytes that were received after the handshake.
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

// DefaultMaxHead is the default limit for the size of a head (request or status line, and header), in bytes.
const DefaultMaxHead = 16 << 10

// errHeadTooLong is returned by readHead if the head does not end within the limit.
var errHeadTooLong = errors.New("head too long")

// errTLS is returned by readHead if the peer has sent a TLS handshake.
var errTLS = errors.New("TLS instead of HTTP")

// errBareLineFeed is returned by wholeHead for a head that, according to net/http, ends before its empty line. The bytes in between
// would be lost.
var errBareLineFeed = errors.New("empty line ended by a bare line feed")

// wholeHead returns an error if net/http has not parsed the head to its end.
func wholeHead(r *bufio.Reader) error {
	if r.Buffered() > 0 {
		return errBareLineFeed
	}
	return nil
}

// acceptKey returns the value of Sec-WebSocket-Accept for a key (RFC 6455, section 4.2.2).
func acceptKey(key string) string {
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	sum := sha1.Sum([]byte(key + guid))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// hasToken reports whether a header's values, each a comma-separated list, contain the token, ignoring upper and lower case.
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

// headBuffers holds buffers to read heads into. Most heads fit, and most handshakes need a buffer only for a moment.
var headBuffers = sync.Pool{New: func() any { b := make([]byte, 2<<10); return &b }}

// readHead reads an HTTP head of at most limit bytes, including the empty line that ends it, calls parse with it, and returns a
// copy of what was received after it. The head is valid only until parse returns.
func readHead(r io.Reader, limit int, parse func(head []byte) error) (behind []byte, err error) {
	pooled := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(pooled)
	buf, n := *pooled, 0
	for {
		m, err := r.Read(buf[n:])
		from := max(0, n-3)
		n += m
		if bytes.HasPrefix(buf[:n], []byte("\x16\x03")) { // a record of TLS (RFC 8446, section 5.1): no line of HTTP begins so, and no more may come
			return nil, errTLS
		}
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
