package certificate

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

func TestAuthenticate(t *testing.T) {
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	full := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "device-7", Organization: []string{"Acme", "Other"}, OrganizationalUnit: []string{"speech"}},
		DNSNames: []string{"device-7.acme.example", "second.example"}, EmailAddresses: []string{"a@acme.example"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "acme", Path: "/device/7"}}, NotAfter: end,
	}
	for part, tenant := range map[string]string{
		"cn": "device-7", "o": "Acme", "ou": "speech", "dns": "device-7.acme.example", "email": "a@acme.example", "uri": "spiffe://acme/device/7",
	} {
		who, err := New(part).Authenticate(context.Background(), &auth.Attempt{Certificate: full})
		if err != nil || *who != (identity.Identity{Tenant: tenant, Subject: "device-7", Method: identity.MethodCertificate, Expires: end}) {
			t.Errorf("%s: %+v, %v", part, who, err)
		}
	}
	if _, err := New("cn").Authenticate(context.Background(), &auth.Attempt{Credential: "x"}); !errors.Is(err, auth.ErrAbsent) {
		t.Errorf("no certificate: %v", err)
	}
	for name, c := range map[string]struct {
		certificate *x509.Certificate
		want        string
	}{
		"nothing":       {&x509.Certificate{}, "it has no ou"},
		"empty":         {&x509.Certificate{Subject: pkix.Name{OrganizationalUnit: []string{""}}}, "it has no ou"},
		"not printable": {&x509.Certificate{Subject: pkix.Name{CommonName: "a\r\nb", OrganizationalUnit: []string{"a\r\nX-Admin: 1"}}}, "not printable"},
		"long":          {&x509.Certificate{Subject: pkix.Name{OrganizationalUnit: []string{strings.Repeat("x", 300)}}}, "longer than 256"},
	} {
		who, err := New("ou").Authenticate(context.Background(), &auth.Attempt{Certificate: c.certificate})
		denied := (*auth.Denied)(nil)
		if !errors.As(err, &denied) || denied.Code() != http.StatusForbidden || !strings.Contains(err.Error(), c.want) || who != nil || denied.Identity.Subject != "" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

// A certificate without a common name is called by its first alternative name.
func TestSubject(t *testing.T) {
	c := &x509.Certificate{DNSNames: []string{"device-8.acme.example"}}
	if got := subject(c); got != "device-8.acme.example" {
		t.Errorf("%q", got)
	}
	c.URIs = []*url.URL{{Scheme: "spiffe", Host: "acme", Path: "/device/8"}}
	if got := subject(c); got != "spiffe://acme/device/8" {
		t.Errorf("%q", got)
	}
}
