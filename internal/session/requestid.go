package session

import (
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// requestIDHeader is the header in which clients, and balancers before the proxy, say what they call a request.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the longest request id, in bytes.
const maxRequestID = 128

// requestID returns the client's name for its request; empty unless there is exactly one and it is valid.
func requestID(req *handshake.Request) string {
	values := req.Header[requestIDHeader]
	if len(values) != 1 || !isRequestID(values[0]) {
		return ""
	}
	return strings.Clone(values[0]) // it keeps nothing else of the request in memory
}

// isRequestID reports whether a text may stand in logs and in the admin API as the client wrote it.
func isRequestID(text string) bool {
	if text == "" || len(text) > maxRequestID {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte("-._~:/+=@", c) < 0 {
			return false
		}
	}
	return true
}
