package admission

import (
	"bytes"
	"net"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Health answers load balancers, which ask the port that they send clients to.
type Health struct {
	// Path is what they request; it wins over the paths of all services. Empty for none.
	Path string
	// Ready returns nil if clients may be sent here, otherwise why not. Strangers are told the reason. Any goroutine calls it, and it
	// must not wait for anything.
	Ready func() error
}

// asks reports whether the request is a health check.
func (h *Health) asks(req *handshake.Request) bool { return h.Path != "" && req.URL.Path == h.Path }

// answer answers a health check and closes the connection. A health check is no client: it has no id, waits in no queue, and is neither
// counted nor logged.
func (h *Health) answer(nc net.Conn, req *handshake.Request) {
	answer := handshake.Refusal{Status: http.StatusOK, Reason: "ok", Header: http.Header{"Cache-Control": {"no-store"}}}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions: // HAProxy sends OPTIONS unless it is told otherwise
		if err := h.Ready(); err != nil {
			answer.Status, answer.Reason = http.StatusServiceUnavailable, err.Error()
		}
	default:
		answer.Status, answer.Reason = http.StatusMethodNotAllowed, "use GET or HEAD"
		answer.Header.Set("Allow", "GET, HEAD, OPTIONS")
	}
	wire := answer.Append(nil)
	if req.Method == http.MethodHead {
		wire = wire[:bytes.Index(wire, []byte("\r\n\r\n"))+4]
	}
	handshake.Answer(nc, wire)
}
