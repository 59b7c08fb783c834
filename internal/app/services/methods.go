package services

import (
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/certificate"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/external"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/token"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
)

// The functions of this file are called with Services.mu held.

// authAllow is the value of auth-failure that lets clients in.
const authAllow = "allow"

// newMethod returns the method of authentication of that name for a service. v has what the service had before.
func (s *Services) newMethod(name string, v *service, c *config.Service) auth.Method {
	switch name {
	case identity.MethodJWT:
		return token.NewVerifier(token.Options{
			Keys: s.keySets.Keys(c.JWTKeys), Issuer: c.JWTIssuer, Audiences: c.JWTAudience, Algorithms: c.SignatureAlgorithms(),
			Leeway: c.JWTLeeway, Claims: c.JWTClaims,
		})
	case identity.MethodCertificate:
		return certificate.New(c.CertificateTenant)
	case identity.MethodExternal:
		return s.checker(v, c)
	}
	return s.keys
}

// checker returns the method that asks a service's HTTP server. It stays the same, with what it knows of the server and what that has
// answered, while its settings do.
func (s *Services) checker(v *service, c *config.Service) *external.Checker {
	o := external.Options{
		URL: c.AuthURL, Timeout: c.AuthTimeout, Cache: c.AuthCache, AskAnonymous: c.AuthAskAnonymous, Allow: c.AuthFailure == authAllow, Log: s.o.Log.With("service", v.name),
	}
	if v.checker != nil {
		before := v.checker.Options()
		before.Log = o.Log
		if before == o {
			return v.checker
		}
		v.checker.Close()
	}
	v.checker = external.New(o)
	return v.checker
}

// forgetUnusedMethods closes idle connections to HTTP servers that services no longer ask, and ends the reading of key sets that are no
// longer used.
func (s *Services) forgetUnusedMethods() {
	used := make(map[string]bool)
	for _, v := range s.services {
		c := &v.plan.Service
		if slices.Contains(c.AuthMethods(), identity.MethodJWT) {
			used[c.JWTKeys] = true
		}
		if v.checker != nil && !slices.Contains(c.AuthMethods(), identity.MethodExternal) {
			v.checker.Close()
			v.checker = nil
		}
	}
	s.keySets.Keep(used)
}

// sameMethods reports whether two versions of a service have the same settings for their methods.
func sameMethods(a, b *config.Service) bool {
	return a.JWTKeys == b.JWTKeys && a.JWTIssuer == b.JWTIssuer && slices.Equal(a.JWTAudience, b.JWTAudience) &&
		slices.Equal(a.JWTAlgorithms, b.JWTAlgorithms) && a.JWTLeeway == b.JWTLeeway && maps.Equal(a.JWTClaims, b.JWTClaims) &&
		a.AuthURL == b.AuthURL && a.AuthTimeout == b.AuthTimeout && a.AuthCache == b.AuthCache && a.AuthFailure == b.AuthFailure && a.AuthAskAnonymous == b.AuthAskAnonymous &&
		a.CertificateTenant == b.CertificateTenant
}
