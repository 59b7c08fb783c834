package backend

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
)

// unfollowedEvery is the shortest time between two readings of a capacity that is only shown.
const unfollowedEvery = time.Minute

// reads is how a server's capacity is read; the zero value for not at all.
type reads struct {
	profile *profile.Profile // that says where
	every   time.Duration
}

// readsOf returns how the capacity is read with these options. One that is only shown is read only where the server takes connections: a
// request to another port, or to a vendor's host, may be unwelcome.
func readsOf(o *Options) reads {
	c := o.Profile.Capacity()
	switch {
	case o.Capacity == nil || !c.Known():
		return reads{}
	case o.FollowsCapacity:
		return reads{o.Profile, c.Every}
	case capacity.Own(o.Profile):
		return reads{o.Profile, max(c.Every, unfollowedEvery)}
	}
	return reads{}
}

// readCapacity reads what the server publishes by this setting from now on. With anew, it does so immediately even if the setting is the same.
// It does not wait for a reading that is in progress. It is called with updating held.
func (b *Backend) readCapacity(r reads, anew bool) {
	if r == b.reads && (!anew || r == (reads{})) {
		return
	}
	b.reads = r
	b.reading.replace(b.worker.ctx, func(ctx context.Context) {
		if r == (reads{}) {
			return
		}
		repeat(ctx, func() time.Duration {
			held := b.usedPlaces()
			o := b.options()
			got, err := capacity.Read(ctx, r.profile, o.Target)
			if ctx.Err() == nil {
				// A connection that was opened or closed meanwhile may be in the answer or not. It is not taken for a stranger's.
				o.Capacity.CapacityRead(got, max(held, b.usedPlaces()), err)
			}
			return r.every
		})
	})
}

func (b *Backend) usedPlaces() int {
	stats := b.pool.Stats()
	return stats.Used()
}
