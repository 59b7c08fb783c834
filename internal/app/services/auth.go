package services

import (
	"iter"
	"reflect"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
)

// applyKeys puts the snapshot's API keys in force, and reports whether they differ from those before.
func (s *Services) applyKeys(snapshot *config.Snapshot, before *plan) (changed bool) {
	if before != nil && sameKeys(before.snapshot, snapshot) {
		return false
	}
	var keys []apikey.Key
	for name, key := range snapshot.Keys() {
		hash, ok := apikey.ParseHash(key.Hash)
		if !ok { // it has been checked
			s.o.Log.Error("the hash of an API key cannot be read, so the key cannot be used", "key", name)
			continue
		}
		keys = append(keys, apikey.Key{
			Name: name, Hash: hash, Tenant: key.Tenant, Expires: key.Expires, Services: key.Services, Limits: key.Limits,
		})
	}
	s.keys.SetTable(apikey.NewTable(keys, s.keys.Table()))
	return true
}

// sameKeys reports whether two snapshots have the same API keys.
func sameKeys(a, b *config.Snapshot) bool {
	next, stop := iter.Pull2(b.Keys())
	defer stop()
	for name, key := range a.Keys() {
		if other, changed, ok := next(); !ok || other != name || !reflect.DeepEqual(key, changed) {
			return false
		}
	}
	_, _, more := next()
	return !more
}

// applyAuth applies how a service's clients are authenticated, and reports whether that has changed. It is called with mu held.
func (s *Services) applyAuth(v *service, c *config.Service) (changed bool) {
	if v.auth != nil && sameAuth(&v.authBy, c) || v.auth == nil && len(c.AuthMethods()) == 0 {
		return false
	}
	v.auth, v.authBy = s.newPolicy(v, c), *c
	return true
}

// sameAuth reports whether two versions of a service authenticate clients in the same way.
func sameAuth(a, b *config.Service) bool {
	return slices.Equal(a.AuthMethods(), b.AuthMethods()) && slices.Equal(sourcesOf(a), sourcesOf(b)) &&
		slices.Equal(a.Pass, b.Pass) && a.EndUnauthorized == b.EndUnauthorized && sameMethods(a, b)
}

// newPolicy returns how a service's clients are authenticated; nil for not at all.
func (s *Services) newPolicy(v *service, c *config.Service) *auth.Policy {
	if len(c.AuthMethods()) == 0 {
		return nil
	}
	sources := sourcesOf(c)
	policy := &auth.Policy{Former: auth.Chain{s.keys}, Sources: sources, Withheld: sources.Except(c.Pass), EndUnauthorized: c.EndUnauthorized}
	for _, name := range c.AuthMethods() {
		policy.Methods = append(policy.Methods, s.newMethod(name, v, c))
		if name == identity.MethodExternal {
			policy.Timeout = 2 * c.AuthTimeout // to wait for its turn, and then for the server, whose time-out comes first
		}
	}
	return policy
}

// sourcesOf returns where a service's clients give credentials; none if nothing looks for them there.
func sourcesOf(c *config.Service) auth.Sources {
	methods := c.AuthMethods()
	if len(methods) == 0 || len(c.AuthFrom) == 0 && slices.Equal(methods, []string{identity.MethodCertificate}) {
		return nil
	}
	sources, err := auth.ParseSources(c.CredentialSources())
	if err != nil { // it has been checked
		return nil // so no client gets in
	}
	return sources
}
