package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// dialConfig is what connections are made by: the options that were in force when they were dialed. It is immutable, and each
// connection keeps its own, since what a server was told cannot be changed afterwards.
type dialConfig struct {
	Options
	backend *Backend
	// renewal counts the changes after which older connections are not wanted any more.
	renewal uint32
}

// options returns the options that are in force now. They must not be changed.
func (b *Backend) options() *Options { return &b.config.Load().Options }

// Leave takes the backend out of its group for good, or until Restore: sessions that there are go on, none begins, and
// connections are closed that have no session. It is not probed any more. Close is for when they are gone.
func (b *Backend) Leave() {
	b.group.Remove(b.pool)
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(nil, false)
}

// Restore takes a backend that was leaving back into its group, as one that is disabled.
func (b *Backend) Restore() {
	b.group.Restore(b.pool)
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(b.options().Probe, false)
}

// Group returns the group that the backend belongs to.
func (b *Backend) Group() *pool.Group[*Conn] { return b.group }

// Update changes the options. Sessions go on. Group, Variants, Peers, Loops, Log, Descriptors, Guard, Mode and the URL of Target stay
// what they were. With
// renew, the connections that there are were dialed with what is not wanted any more: those that are idle are replaced little by
// little, and those in use when their sessions have ended. What failed with them says nothing about those to come: the backend is
// tried at once, even if its circuit is open.
func (b *Backend) Update(o Options, renew bool) {
	b.updating.Lock()
	defer b.updating.Unlock()
	now := b.config.Load()
	o.Group, o.Variants, o.Peers, o.Loops, o.Log = now.Group, now.Variants, now.Peers, now.Loops, now.Log
	o.Descriptors, o.Guard = now.Descriptors, now.Guard
	o.setDefaults()
	o.keepTo(o.Profile)
	next := &dialConfig{Options: o, backend: b, renewal: now.renewal}
	if renew {
		next.renewal++
	}
	b.config.Store(next) // before the pool is told, so that what it reserves from then on is made so
	b.report.rename(o.Name)
	b.worker.configure(o.limits())
	b.pool.Set(o.Settings)
	if renew {
		b.pool.Renew()
		b.expect()
		b.worker.renew() // behind the pool, so that what is dialed then is of the new generation
	}
	b.probeBy(o.Probe, renew)
}

// outdated tells whether the connection was dialed with what is not wanted any more.
func (c *Conn) outdated() bool { return c.config.renewal != c.config.backend.config.Load().renewal }

// protocol returns the subprotocol that the server chose for a connection of a variant: the only one that the handshake accepts,
// unless the client's own were offered.
func (d *dialConfig) protocol(variant string) string {
	if isPrivate(variant) && d.Variants != nil {
		if v, chosen, ok := d.Variants.find(variant); ok && len(v.Subprotocols) > 0 {
			return chosen
		}
	}
	return d.Target.Protocol
}

// target returns the server as it is to be dialed for connections of a variant.
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
