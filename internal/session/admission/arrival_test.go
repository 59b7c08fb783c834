package admission

import (
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Without a traceparent and without tracing, a session pays nothing for traces.
func TestNoTraceCostsNothing(t *testing.T) {
	s, req := new(Gate), &handshake.Request{Request: &http.Request{Header: http.Header{"Authorization": {"x"}}}}
	if n := testing.AllocsPerRun(100, func() {
		if trace := s.trace(req); trace != nil || trace.Sampled() {
			t.Error("there is a trace")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
