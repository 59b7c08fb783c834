package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/wsbouncer/wsbouncer/internal/secure"
)

// Secure tells whether the server is reached by TLS (wss).
func (t *Target) Secure() bool { return t.tls != nil }

// HTTP returns the scheme of URLs at the same server: https if it is reached by TLS, and http otherwise.
func (t *Target) HTTP() string {
	if t.Secure() {
		return "https"
	}
	return "http"
}

// SetTLS changes how a server is reached by TLS that is so at all. The certificate must be for the host in the server's URL unless
// the settings name another. Files are read for each dial.
func (t *Target) SetTLS(s secure.Settings) {
	if s.ServerName == "" {
		s.ServerName, _, _ = net.SplitHostPort(t.address)
	}
	t.tls = secure.NewSource(s)
}

// TLS returns the configuration for a connection made now, which must not be changed; nil for a server that is reached without
// TLS. The error names the field, the file and the reason.
func (t *Target) TLS() (*tls.Config, error) {
	if t.tls == nil {
		return nil, nil
	}
	return t.tls.Config()
}

// secure carries out the TLS handshake.
func (t *Target) secure(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	nc, err := secure.Client(ctx, raw, config)
	if err == nil {
		return nc, nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("no answer to the TLS handshake: %w", context.Cause(ctx))
	}
	return nil, err
}
