// Package certificate authenticates clients by the certificate of their TLS connection. Whether it is valid was decided in the TLS
// handshake, by the authorities of the listener: here it only says who the client is.
package certificate

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// Method is an [auth.Method]. Any goroutine may use it.
type Method struct {
	part string // static; of the certificate, that names the tenant
}

// New returns a method. part is the part of a certificate that names the tenant: cn, o, ou, dns, email or uri.
func New(part string) *Method { return &Method{part} }

// Name implements [auth.Method].
func (m *Method) Name() string { return identity.MethodCertificate }

// Authenticate implements [auth.Method]. A client without a certificate is left to the next method. One whose certificate names no tenant is
// known, but not allowed.
func (m *Method) Authenticate(_ context.Context, a *auth.Attempt) (*identity.Identity, error) {
	certificate := a.Certificate
	if certificate == nil {
		return nil, auth.ErrAbsent
	}
	who := &identity.Identity{Method: identity.MethodCertificate, Expires: certificate.NotAfter}
	if subject := subject(certificate); identity.CheckText("subject", subject) == nil {
		who.Subject = subject
	}
	tenant := first(parts(certificate, m.part))
	err := identity.CheckText("tenant", tenant)
	if tenant == "" {
		err = fmt.Errorf("the client's certificate names no tenant: it has no %s", m.part)
	}
	if err != nil {
		return nil, &auth.Denied{Status: http.StatusForbidden, Err: err, Identity: who}
	}
	who.Tenant = tenant
	return who, nil
}

// parts returns the values of one part of a certificate, in their order.
func parts(c *x509.Certificate, part string) (values []string) {
	switch part {
	case "cn":
		values = []string{c.Subject.CommonName}
	case "o":
		values = c.Subject.Organization
	case "ou":
		values = c.Subject.OrganizationalUnit
	case "dns":
		values = c.DNSNames
	case "email":
		values = c.EmailAddresses
	case "uri":
		for _, u := range c.URIs {
			values = append(values, u.String())
		}
	}
	return values
}

// subject returns the name of a client: its common name, or else its first alternative name.
func subject(c *x509.Certificate) string {
	for _, part := range []string{"cn", "uri", "email", "dns"} {
		if name := first(parts(c, part)); name != "" {
			return name
		}
	}
	return ""
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
