package backend

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Variants remembers what the variants of a service's connections mean, which the pools know by name only: what to tell the
// server in the handshake. It is shared by the backends of the service and may be used from any goroutine. The zero value is
// ready.
type Variants struct {
	mu      sync.Mutex
	meaning map[string]meaning // guarded by mu
	private uint64             // guarded by mu: how many of one client only there have been
}

// meaning is what a variant's name stands for.
type meaning struct {
	profile.Variant
	chosen string // by the server, of the subprotocols that a client offers
}

// settingsMark stands between the name of a variant and what sessions have set on its connections.
const settingsMark = "#"

// Name returns the pools' name for a variant. Clients with the same one share connections. A private one is for one client
// alone: its name, which says nothing of what it means, is given to nobody else. Forget gives it up.
func (v *Variants) Name(variant profile.Variant) string {
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
	v.meaning[name] = meaning{Variant: variant} // there are as many as the profile's lists of allowed values have combinations, and clients
	return name
}

// WithSettings returns the name for connections of that variant that are for sessions with these settings, which stand for
// what the profile calls sticky; 0 for those that nobody has set anything on.
func (v *Variants) WithSettings(name string, settings uint64) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, pool.TransientPrefix), settingsMark)
	return pool.TransientPrefix + name + settingsMark + strconv.FormatUint(settings, 16)
}

// Forget gives up the name of a private variant, whose client needs no connection any more. Others stay.
func (v *Variants) Forget(name string) {
	if !isPrivate(name) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.meaning, name)
}

// anyPrivate tells whether a client has come with values of its own.
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

// lookup returns what a name means, or false when it was given up.
func (v *Variants) lookup(name string) (profile.Variant, bool) {
	variant, _, ok := v.find(name)
	return variant, ok
}

// find is lookup, and returns also what choose has noted.
func (v *Variants) find(name string) (variant profile.Variant, chosen string, ok bool) {
	if name = plainName(name); name == "" {
		return profile.Variant{}, "", true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.meaning[name]
	return m.Variant, m.chosen, ok
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

// isPrivate tells whether connections of that name are for one client alone.
func isPrivate(name string) bool { return strings.HasPrefix(name, pool.TransientPrefix+"private ") }

// unwantedError is why a connection was not dialed after all: the client that it was for has left.
type unwantedError struct{ variant string }

func (e unwantedError) Error() string {
	return fmt.Sprintf("nobody waits for variant %q any more", e.variant)
}
