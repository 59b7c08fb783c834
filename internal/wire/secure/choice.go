package secure

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
)

// Issuer has certificates that come from elsewhere than files. Any goroutine may call its methods.
type Issuer interface {
	// Covers reports whether there is, or will be, a certificate for a name, which is in lower case.
	Covers(name string) bool
	// GetCertificate returns the certificate for a client that asks for a covered name, the first one for a client that asks for no name, or
	// what the check of the authority expects, whose connections ask for the protocol acme-tls/1 (RFC 8737).
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// ChallengeProtocol is what an authority speaks to check that a name leads to this proxy (RFC 8737, section 6.2).
const ChallengeProtocol = "acme-tls/1"

// choice chooses the certificate for a client. It is immutable.
type choice struct {
	exact    map[string][]*certificate // by name or wildcard
	standard []*certificate            // for clients that ask for no name, or for one that no certificate is for
	issuer   Issuer                    // nil for none
}

func newChoice(all []*certificate, issuer Issuer) *choice {
	c := &choice{exact: make(map[string][]*certificate), issuer: issuer}
	for _, one := range all {
		for _, name := range one.names {
			c.exact[name] = append(c.exact[name], one)
		}
		if slices.Equal(one.names, all[0].names) { // one with an RSA key, perhaps, and one with an ECDSA key
			c.standard = append(c.standard, one)
		}
	}
	return c
}

// errNoCertificate is the end of a handshake with a client that no certificate can be presented to.
var errNoCertificate = errors.New("no certificate for the name that the client asks for")

// get returns the certificate for a client. An exact name wins over a wildcard, files win over the issuer, and of several certificates for
// one name the first wins that the client can verify.
func (c *choice) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.issuer != nil && slices.Contains(hello.SupportedProtos, ChallengeProtocol) {
		return c.issuer.GetCertificate(hello)
	}
	name := strings.ToLower(hello.ServerName)
	found := c.exact[name]
	if len(found) == 0 && name != "" && c.issuer != nil && c.issuer.Covers(name) {
		return c.issuer.GetCertificate(hello)
	}
	if len(found) == 0 {
		found = c.exact[wildcard(name)]
	}
	if len(found) == 0 {
		found = c.standard
	}
	if len(found) == 0 && name == "" && c.issuer != nil {
		return c.issuer.GetCertificate(hello)
	}
	if len(found) == 0 {
		return nil, errNoCertificate
	}
	if len(found) > 1 {
		for _, one := range found {
			if supports(hello, &one.Certificate) {
				return &one.Certificate, nil
			}
		}
	}
	return &found[0].Certificate, nil
}

// supports reports whether the client can verify the certificate, whatever name it asks for.
func supports(hello *tls.ClientHelloInfo, certificate *tls.Certificate) bool {
	anyName := *hello
	anyName.ServerName = ""
	return anyName.SupportsCertificate(certificate) == nil
}
