// Package identity has what authentication says about a client.
package identity

import (
	"crypto/sha256"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

// The ways in which a client is authenticated, as the configuration names them.
const (
	MethodKeys        = "keys"        // an API key
	MethodJWT         = "jwt"         // a JSON Web Token
	MethodCertificate = "certificate" // the certificate of the client's TLS connection
	MethodExternal    = "external"    // an HTTP server that was asked
)

// Identity is who a client is. It is immutable, and may be shared by any number of goroutines and sessions. nil is an anonymous client.
type Identity struct {
	Tenant  string // whose limits and share of the queue apply; empty for none
	Subject string // who the client is, as the method knows it; empty for unknown
	Method  string // how the client was authenticated
	Key     string // the name of the API key, never the key; empty for none
	// Serial distinguishes keys that had the same name one after the other; 0 for none.
	Serial uint64
	// Signer is the thumbprint of the key that has signed the token; zero for none.
	Signer [sha256.Size]byte
	// Expires is when the key or token does; zero for never.
	Expires time.Time
	// Limits are those of the key or token, beside those of its tenant.
	Limits limits.Limits
}

// maxText is the longest name of a tenant or subject, in bytes.
const maxText = 256

// CheckText checks the name of a tenant or subject that another system has said: it is shown in logs, and each session keeps it. The error
// does not repeat it.
func CheckText(what, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("the %s is empty", what)
	case len(text) > maxText:
		return fmt.Errorf("the %s is longer than %d bytes", what, maxText)
	case !utf8.ValidString(text):
		return fmt.Errorf("the %s is not UTF-8", what)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the %s has characters that are not printable", what)
		}
	}
	return nil
}
