package handshake

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// ownFields are the fields of an upgrade request that the handshake sets itself, or that would change where the request ends. Fields
// that begin with Sec-Websocket- belong to them, too.
var ownFields = []string{"Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding"}

// header returns the additional fields of the upgrade request in their wire form, and notes the secrets among them.
func (t *Target) header(sent *secret.Sent) (string, error) {
	var resolved http.Header
	if t.Resolve != nil {
		header, err := t.Resolve()
		if err != nil {
			return "", fmt.Errorf("header: %w", err)
		}
		resolved = make(http.Header, len(header))
		for name, values := range header {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			if slices.Contains(ownFields, canonical) || strings.HasPrefix(canonical, "Sec-Websocket-") {
				return "", fmt.Errorf("header: the proxy sets %s itself", name)
			}
			resolved[canonical] = append(resolved[canonical], values...)
		}
	}
	var text strings.Builder
	for _, field := range t.Header {
		if _, replaced := resolved[textproto.CanonicalMIMEHeaderKey(field.Name)]; !replaced {
			fmt.Fprintf(&text, "%s: %s\r\n", field.Name, field.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resolved)) {
		for _, value := range resolved[name] {
			// Names and values that are invalid in HTTP could become other fields. The value is not shown: it may be a secret.
			if !IsToken(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return "", fmt.Errorf("header: %q or its value has characters that HTTP does not allow", name)
			}
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
			sent.AddHeader(value)
		}
	}
	return text.String(), nil
}

// IsToken reports whether a text is a token of HTTP (RFC 9110, section 5.6.2): a field's name, a subprotocol.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
