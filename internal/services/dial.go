package services

import (
	"fmt"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/secure"
)

// configureTarget sets the headers and TLS settings of a backend. Secrets and files are read for each dial, so that they can be
// replaced while the proxy runs.
func configureTarget(target *handshake.Target, b *config.Backend) {
	if target.Secure() {
		target.SetTLS(secure.Settings{
			CA: b.TLSCA, ServerName: b.TLSServerName, InsecureSkipVerify: b.TLSInsecureSkipVerify,
			Certificate: b.TLSCertificate, Key: b.TLSKey,
		})
	}
	if len(b.Headers) > 0 {
		headers := b.Headers
		target.Resolve = func() (http.Header, error) { return resolve(headers) }
	}
}

// resolve returns headers with references replaced by their secrets. The error names the header and the reference, not the secret.
func resolve(headers map[string]string) (http.Header, error) {
	header := make(http.Header, len(headers))
	for name, text := range headers {
		value, err := config.Resolve(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		header.Set(name, value)
	}
	return header, nil
}
