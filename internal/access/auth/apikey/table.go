package apikey

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

// Key is an API key of the configuration.
type Key struct {
	Name     string
	Hash     Hash
	Tenant   string
	Expires  time.Time // zero for never
	Services []string  // that it is good for; none for all
	Limits   limits.Limits
}

// entry is a key in a table. It is static.
type entry struct {
	key Key
	who *identity.Identity
}

// Table is all keys of a configuration. It is immutable.
type Table struct {
	byHash map[Hash]*entry
	byName map[string]*entry
}

// NewTable returns a table of keys with different names and hashes. It keeps the identities of the keys that are unchanged since the table
// before, which may be nil.
func NewTable(keys []Key, before *Table) *Table {
	t := &Table{byHash: make(map[Hash]*entry, len(keys)), byName: make(map[string]*entry, len(keys))}
	for _, key := range keys {
		var e *entry
		if before != nil {
			e = before.byName[key.Name]
		}
		switch {
		case e == nil || e.key.Hash != key.Hash:
			e = newEntry(key, serials.Add(1))
		case !e.key.equal(&key):
			e = newEntry(key, e.who.Serial)
		}
		t.byHash[key.Hash], t.byName[key.Name] = e, e
	}
	return t
}

// serials numbers the keys that there were since the start.
var serials atomic.Uint64

func newEntry(key Key, serial uint64) *entry {
	return &entry{key: key, who: &identity.Identity{
		Tenant: key.Tenant, Subject: key.Name, Method: identity.MethodKeys, Key: key.Name, Serial: serial, Expires: key.Expires, Limits: key.Limits,
	}}
}

func (k *Key) equal(other *Key) bool {
	return k.Name == other.Name && k.Hash == other.Hash && k.Tenant == other.Tenant && k.Expires.Equal(other.Expires) &&
		slices.Equal(k.Services, other.Services) && k.Limits == other.Limits
}

// expired reports whether the key is refused at a time.
func (k *Key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// permits reports whether the key is good for a service.
func (k *Key) permits(service string) bool {
	return len(k.Services) == 0 || slices.Contains(k.Services, service)
}

// Method authenticates clients by keys. One serves all services; any goroutine may use it.
type Method struct {
	table atomic.Pointer[Table]
	now   func() time.Time // static
}

// NewMethod returns a method without keys. now is the clock.
func NewMethod(now func() time.Time) *Method {
	m := &Method{now: now}
	m.table.Store(NewTable(nil, nil))
	return m
}

// Table returns the keys in force.
func (m *Method) Table() *Table { return m.table.Load() }

// SetTable puts other keys in force.
func (m *Method) SetTable(t *Table) { m.table.Store(t) }

// Name implements [auth.Method].
func (m *Method) Name() string { return identity.MethodKeys }

// The reasons for which a key is refused, for the log.
var (
	errMalformed = errors.New("the API key is malformed: it has the wrong length, or a wrong character")
	errUnknown   = errors.New("unknown API key")
)

// Authenticate implements [auth.Method]. It does the same work for every text that begins like a key, whatever is wrong with it.
func (m *Method) Authenticate(_ context.Context, a *auth.Attempt) (*identity.Identity, error) {
	if !strings.HasPrefix(a.Credential, Prefix) {
		return nil, auth.ErrAbsent
	}
	hash, valid := HashOf(a.Credential), Valid(a.Credential)
	e := m.table.Load().byHash[hash]
	found := e
	if e == nil {
		found = &noEntry
	}
	// A map compares hashes in its own time, but a client cannot choose the hash of a text. This comparison does not depend on that.
	same := subtle.ConstantTimeCompare(found.key.Hash[:], hash[:]) == 1
	expired, permitted := found.key.expired(m.now()), found.key.permits(a.Service)
	switch {
	case !valid:
		return nil, &auth.Denied{Err: errMalformed}
	case e == nil || !same:
		return nil, &auth.Denied{Err: errUnknown}
	case expired:
		return nil, &auth.Denied{Err: fmt.Errorf("the API key %s expired at %s", e.key.Name, e.key.Expires.UTC().Format(time.RFC3339))}
	case !permitted:
		return nil, &auth.Denied{
			Status: http.StatusForbidden, Err: fmt.Errorf("the API key %s is not good for the service %s", e.key.Name, a.Service), Identity: e.who,
		}
	}
	return e.who, nil
}

// noEntry is compared with when no key has the hash.
var noEntry entry

// Revoked implements [auth.Revoker].
func (m *Method) Revoked(service string, who *identity.Identity) (expires time.Time, reason string) {
	e := m.table.Load().byName[who.Key]
	switch {
	case e == nil || e.who.Serial != who.Serial:
		return time.Time{}, "the API key was revoked"
	case e.key.expired(m.now()):
		return time.Time{}, "the API key has expired"
	case !e.key.permits(service):
		return time.Time{}, "the API key is no longer good for this service"
	}
	return e.key.Expires, ""
}
