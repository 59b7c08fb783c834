package backend

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Variants says what the names of a service's variants stand for: what connections of a variant tell the server in the handshake.
// The pools know the names only. The backends of the service share it; it may be used from any goroutine. The zero value is ready.
type Variants struct {
	mu      sync.Mutex
	meaning map[string]meaning // guarded by mu
	private uint64             // guarded by mu: how many private ones there have been
}

// meaning is what a variant's name stands for.
type meaning struct {
	profile.Variant
	client Client // whose it is, if it is private
	chosen string // by the server, of the subprotocols that a client offers
}

// settingsMark separates the name of a variant from what sessions have set on its connections.
const settingsMark = "#"

// Name returns the pools' name for a variant. Clients with the same one share connections. A private variant is for one client alone:
// its name says nothing about its meaning and is never used again. Forget ends it. For others, the client does not matter.
func (v *Variants) Name(variant profile.Variant, client Client) string {
	name := variant.Key
	v.mu.Lock()
	defer v.mu.Unlock()
	if variant.Private {
		v.private++
		name = pool.TransientPrefix + "private " + strconv.FormatUint(v.private, 10)
	}
	if name == "" {
		return ""
	}
	if v.meaning == nil {
		v.meaning = make(map[string]meaning)
	}
	v.meaning[name] = meaning{Variant: variant, client: client} // at most one for each combination of the profile's allowed values, and for each client
	return name
}

// WithSettings returns the name for connections of that variant on which sessions have made these settings (what the profile calls
// sticky); 0 is for those without any.
func (v *Variants) WithSettings(name string, settings uint64) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, pool.TransientPrefix), settingsMark)
	return pool.TransientPrefix + name + settingsMark + strconv.FormatUint(settings, 16)
}

// Forget removes the name of a private variant, because its client no longer needs a connection. Other names stay.
func (v *Variants) Forget(name string) {
	if !isPrivate(name) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.meaning, name)
}

// anyPrivate reports whether a client has come with its own values.
func (v *Variants) anyPrivate() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.private > 0
}

// choose notes which of the subprotocols that a client offers the server has chosen; empty for none.
func (v *Variants) choose(name, chosen string) {
	name = plainName(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, ok := v.meaning[name]; ok && len(m.Subprotocols) > 0 {
		m.chosen = chosen
		v.meaning[name] = m
	}
}

// lookup returns what a name stands for, or false when it was removed.
func (v *Variants) lookup(name string) (m meaning, ok bool) {
	if name = plainName(name); name == "" {
		return meaning{}, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok = v.meaning[name]
	return m, ok
}

// plainName returns a name without what sessions have set.
func plainName(name string) string {
	if plain, _, ok := strings.Cut(name, settingsMark); ok {
		name = strings.TrimPrefix(plain, pool.TransientPrefix)
		if isPrivate(pool.TransientPrefix + name) {
			name = pool.TransientPrefix + name
		}
	}
	return name
}

// isPrivate reports whether connections of that name are for one client alone.
func isPrivate(name string) bool { return strings.HasPrefix(name, pool.TransientPrefix+"private ") }

// unwantedError is why a connection was not dialed: the client that it was for has left.
type unwantedError struct{ variant string }

func (e unwantedError) Error() string {
	return fmt.Sprintf("no client waits for variant %q any longer", e.variant)
}
