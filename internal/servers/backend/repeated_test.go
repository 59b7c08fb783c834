package backend

import (
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Why there is no connection is said without the secrets that the server was told and repeats.
func TestReasonHidesOwnSecrets(t *testing.T) {
	t.Parallel()
	refusing := wstest.AcceptUnless(func(req *handshake.Request) *handshake.Refusal {
		return &handshake.Refusal{Status: http.StatusForbidden, Reason: "bad " + req.Header.Get("Authorization")}
	})
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.CircuitFailures = 1000
		o.Target.Resolve = func() (http.Header, error) { return http.Header{"Authorization": {"Bearer TOPSECRET"}}, nil }
		s.Answer = refusing
	})
	wstest.Eventually(t, "a failure", func() bool { return r.Health().Reason != notDialed })
	if h := r.Health(); !strings.Contains(h.Reason, "bad (hidden)") || strings.Contains(h.CircuitReason, "TOPSECRET") {
		t.Errorf("reason %q, circuit %q", h.Reason, h.CircuitReason)
	}
}
