package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// dialConfig is what connections are dialed with: the options in force at that time. It is immutable, and each connection keeps its
// own, since what a server was told in the handshake cannot be changed afterwards.
type dialConfig struct {
	Options
	backend *Backend
	renewal uint32 // counts the changes that have outdated all older connections
}

// options returns the options that are in force now. They must not be changed.
func (b *Backend) options() *Options { return &b.config.Load().Options }

// Leave takes the backend out of its group, for good or until Restore: running sessions continue, none begins, and idle connections
// are closed. It is no longer probed. Call Close when the sessions have ended.
func (b *Backend) Leave() {
	b.group.Remove(b.pool)
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(nil, false)
	b.play(nil, false)
	b.readCapacity(reads{}, false)
}

// Restore adds a backend that was leaving to its group again. It is disabled.
func (b *Backend) Restore() {
	b.group.Restore(b.pool)
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(b.options().Probe, false)
	b.play(b.options().Canary, false)
	b.readCapacity(readsOf(b.options()), false)
}

// Group returns the group that the backend belongs to.
func (b *Backend) Group() *pool.Group[*Conn] { return b.group }

// Update changes the options. Sessions continue. Group, Variants, Peers, Loops, Log, Descriptors, Guard, Capacity, Mode and the URL of Target stay
// as they were. With renew, the present connections are outdated: idle ones are replaced step by step, and those in use when their
// sessions have ended. Their failures say nothing about the new ones, so a new connection is tried at once, even if the circuit is open.
func (b *Backend) Update(o Options, renew bool) {
	b.updating.Lock()
	defer b.updating.Unlock()
	now := b.config.Load()
	o.Group, o.Variants, o.Peers, o.Loops, o.Log = now.Group, now.Variants, now.Peers, now.Loops, now.Log
	o.Descriptors, o.Guard, o.Capacity = now.Descriptors, now.Guard, now.Capacity
	if o.Meter == nil {
		o.Meter = now.Meter
	}
	o.setDefaults()
	o.keepTo(o.Profile)
	next := &dialConfig{Options: o, backend: b, renewal: now.renewal}
	if renew {
		next.renewal++
	}
	b.config.Store(next) // before the pool is told, so that the slots it reserves from then on are dialed with it
	b.report.rename(o.Name)
	b.worker.configure(o.limits())
	b.pool.Set(o.Settings)
	if renew {
		b.pool.Renew()
		b.keepExpectedWarm()
		b.worker.renew() // after the pool, so that what is dialed then is of the new generation
	}
	b.probeBy(o.Probe, renew)
	b.play(o.Canary, renew)
	b.readCapacity(readsOf(&o), renew)
}

// Recycle has all present connections replaced by new ones with the same options, as after a model change: idle ones step by step,
// and those in use when their sessions have ended. A backend that is out of service is tried at once. Recycle returns how many
// connections there are to replace.
func (b *Backend) Recycle() (connections int) {
	b.updating.Lock()
	defer b.updating.Unlock()
	next := *b.config.Load()
	next.renewal++
	b.config.Store(&next) // before the pool is told, as in Update
	connections = b.pool.Renew()
	b.keepExpectedWarm()
	b.worker.renew()
	return connections
}

// outdated reports whether the connection was dialed before the last renewal.
func (c *Conn) outdated() bool { return c.config.renewal != c.config.backend.config.Load().renewal }

// protocol returns the subprotocol that the server chose for a connection of a variant: the only one that the handshake accepts,
// unless the client's own were offered.
func (d *dialConfig) protocol(variant string) string {
	if isPrivate(variant) && d.Variants != nil {
		if v, ok := d.Variants.lookup(variant); ok && len(v.Subprotocols) > 0 {
			return v.chosen
		}
	}
	return d.Target.Protocol
}

// target returns how the server is dialed for connections of a variant.
func (d *dialConfig) target(variant string) (*handshake.Target, error) {
	o := &d.Options
	if variant == "" || o.Variants == nil {
		return o.Target, nil
	}
	v, ok := o.Variants.lookup(variant)
	if !ok {
		return nil, unwantedError{variant}
	}
	header := make([]handshake.Field, len(v.Header))
	for i, field := range v.Header {
		header[i] = handshake.Field(field)
	}
	return o.Target.With(handshake.ClientPart{
		Path: v.Path, Query: v.Query, Header: header, Offers: v.Subprotocols, Private: v.Private,
	}), nil
}
