package admission

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// What counts as a guess: a client that is known, or gives nothing, does not guess.
func TestGuesses(t *testing.T) {
	for _, c := range []struct {
		denied auth.Denied
		want   bool
	}{
		{auth.Denied{}, true},
		{auth.Denied{Missing: true}, false},
		{auth.Denied{Status: 403}, true},
		{auth.Denied{Status: 403, Missing: true}, false},
		{auth.Denied{Status: 403, Identity: &identity.Identity{Key: "phone"}}, false},
		{auth.Denied{Status: 429}, false},
		{auth.Denied{Status: 400}, false},
	} {
		if got := isGuess(&c.denied); got != c.want {
			t.Errorf("%+v: %v", c.denied, got)
		}
	}
}

// Clients whose identities name neither a subject nor a key are told apart by their credentials.
func TestCredentialHash(t *testing.T) {
	attempt := func(credential, authorization, certificate string) *auth.Attempt {
		return &auth.Attempt{
			Credential: credential, Certificate: &x509.Certificate{Raw: []byte(certificate)},
			Request: &http.Request{Header: http.Header{"Authorization": {authorization}}},
		}
	}
	first, again := attempt("k1", "Bearer k1", "c1"), attempt("k1", "Bearer k1", "c1")
	for _, c := range []struct {
		who   identity.Identity
		other *auth.Attempt
	}{
		{identity.Identity{Method: identity.MethodExternal, Tenant: "acme"}, attempt("k2", "Bearer k1", "c1")},
		{identity.Identity{Method: identity.MethodJWT}, attempt("k2", "Bearer k1", "c1")},
		{identity.Identity{Method: identity.MethodCertificate, Tenant: "acme"}, attempt("k1", "Bearer k1", "c2")},
	} {
		if h := credentialHash(&c.who, first); h != credentialHash(&c.who, again) || h == credentialHash(&c.who, c.other) {
			t.Errorf("%+v: clients are not told apart by their credentials", c.who)
		}
		for _, named := range []identity.Identity{{Method: c.who.Method, Subject: "alice"}, {Method: c.who.Method, Key: "phone"}} {
			if h := credentialHash(&named, first); h != [sha256.Size]byte{} {
				t.Errorf("%+v: the credential counts", named)
			}
		}
	}
	basic := identity.Identity{Method: identity.MethodExternal}
	if credentialHash(&basic, attempt("", "Basic a", "c")) == credentialHash(&basic, attempt("", "Basic b", "c")) {
		t.Error("clients of another scheme are not told apart")
	}
}
