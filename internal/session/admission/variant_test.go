package admission

import (
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// What a service passes as X-Forwarded-For is the client's address, and nothing that the client wrote.
func TestForwardedForIsNotTheClients(t *testing.T) {
	req := &handshake.Request{Request: &http.Request{Header: http.Header{"X-Forwarded-For": {"198.51.100.1"}, "X-Other": {"x"}}}}
	var a arrival
	if err := a.Address.UnmarshalText([]byte("[fe80::7%eth0]:4097")); err != nil {
		t.Fatal(err)
	}
	field := a.field(req)
	if got := field("X-Forwarded-For"); len(got) != 1 || got[0] != "fe80::7" {
		t.Errorf("X-Forwarded-For is %q", got)
	}
	if got := field("X-Other"); len(got) != 1 || got[0] != "x" {
		t.Errorf("X-Other is %q", got)
	}
}
