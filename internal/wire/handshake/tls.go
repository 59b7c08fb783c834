package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Secure reports whether the server is reached over TLS (wss).
func (t *Target) Secure() bool { return t.tls != nil }

// HTTP returns the scheme of HTTP URLs of the same server: https if it is reached over TLS, otherwise http.
func (t *Target) HTTP() string {
	if t.Secure() {
		return "https"
	}
	return "http"
}

// SetTLS sets how a server is reached over TLS. The target must be Secure. The server's certificate must be for the host in its URL,
// unless the settings name another. Files are read for each dial.
func (t *Target) SetTLS(s secure.Settings) {
	if s.ServerName == "" {
		s.ServerName, _, _ = net.SplitHostPort(t.address)
	}
	t.tls = secure.NewSource(s)
}

// TLS returns the configuration for a new connection; nil for a server that is reached without TLS. The caller must not change it.
// An error names the field, the file and the reason.
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
