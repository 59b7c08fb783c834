package services

import (
	"fmt"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// configureTarget sets the TLS settings of a backend. Files are read for each dial, so that they can be replaced while the proxy runs.
func configureTarget(target *handshake.Target, b *config.Backend) {
	if target.Secure() {
		target.SetTLS(secure.Settings{
			CA: b.TLSCA, ServerName: b.TLSServerName, InsecureSkipVerify: b.TLSInsecureSkipVerify,
			Certificate: b.TLSCertificate, Key: b.TLSKey,
		})
	}
}

// readSecrets has the target read what the backend's headers and URL refer to, for each dial.
func readSecrets(target *handshake.Target, b *config.Backend, from *secret.Source) {
	if headers := b.Headers; len(headers) > 0 {
		target.Resolve = func() (http.Header, error) { return resolve(headers, from) }
	}
	if secret.HasReference(b.URL) {
		target.ResolveQuery = from.Query
	}
}

// resolve returns headers with references replaced by their secrets. The error names the header and the reference, not the secret.
func resolve(headers map[string]string, from *secret.Source) (http.Header, error) {
	header := make(http.Header, len(headers))
	for name, text := range headers {
		value, err := from.Header(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		header.Set(name, value)
	}
	return header, nil
}

// SecretWarnings returns which backends of a snapshot refer to a secret that is not read, and which have one in their URL.
func SecretWarnings(snapshot *config.Snapshot, from *secret.Source) (warnings []string) {
	for name, b := range snapshot.Backends() {
		if parameter := secret.Literal(b.URL); parameter != "" {
			warnings = append(warnings, fmt.Sprintf("the URL of the backend %s has a secret, in the parameter %s: use %s=env:NAME or %s=file:/path, or a header", name, parameter, parameter, parameter))
		}
		references, _ := secret.References(b.URL, b.Headers)
		for _, reference := range references {
			if err := from.Check(reference); err != nil {
				warnings = append(warnings, fmt.Sprintf("the backend %s cannot be dialed: %s: %v", name, reference, err))
			}
		}
	}
	return warnings
}
