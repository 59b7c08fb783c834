package services

import (
	"maps"
	"reflect"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
)

// options returns the options that a backend is started with or changed to.
func (s *Services) options(v *service, m *member) backend.Options {
	c := &m.plan.service
	target := *m.plan.target
	target.From = dialfrom.New(s.o.DialFrom)
	target.Log = s.o.Log.With("backend", m.plan.name)
	readSecrets(&target, &m.plan.Backend, s.o.Secrets)
	idle := c.ConnectionMaxIdle
	if s.released {
		idle = 0
	}
	return backend.Options{
		Name: m.plan.name, Target: &target, Profile: m.plan.profile, Group: v.group, Variants: v.variants, Passes: len(c.Pass) > 0 || m.plan.setsByClient, Peers: v.peers,
		Settings: s.sizes(m), Mode: m.mode, Probe: m.plan.probe(), Canary: m.plan.canary,
		DialTimeout: c.DialTimeout, CloseTimeout: c.CloseTimeout,
		MaxAge: connectionAge(c), MaxIdle: idle, VariantMaxIdle: variantMaxIdle,
		MaxSessions:  uint64(c.ConnectionMaxSessions),
		PingInterval: c.PingInterval, PingTimeout: c.PingTimeout,
		FollowsCapacity: m.plan.Auto(), Capacity: readings{s, m},
		CircuitFailures: c.CircuitFailures, SlowStart: c.SlowStart, StallTimeout: m.plan.stallTimeout(), LagLimit: c.LagLimit,
		Loops: s.o.Loops, Log: s.o.Log, Descriptors: s.o.Descriptors, Meter: m.meter, Guard: s.o.Guard, Permission: s.o.Permission,
	}
}

// connectionAge returns the age at which connections are retired. With a session-age, a session that begins last has half of it left.
func connectionAge(c *config.Service) time.Duration {
	if half := c.SessionAge / 2; half > 0 && (c.ConnectionMaxAge == 0 || half < c.ConnectionMaxAge) {
		return half
	}
	return c.ConnectionMaxAge
}

// sizes returns the size of the pool.
func (s *Services) sizes(m *member) pool.Settings {
	warm := m.plan.WarmCount()
	if !m.plan.ahead || s.released {
		warm = 0
	}
	return pool.Settings{Cap: m.plan.Cap(), Ceiling: m.ceiling(), Shared: s.grants != nil, Grant: m.grant, Taken: m.taken, Warm: warm, Weight: m.plan.Weight}
}

// stallTimeout returns after how long a session has stalled; 0 if sessions are not watched for that.
func (b *backendPlan) stallTimeout() time.Duration {
	if b.profile.Failover().Stall == profile.StallNone {
		return 0
	}
	return mostStall(&b.service)
}

// probe returns how the backend is probed; nil for not at all. The text has been checked.
func (b *backendPlan) probe() *backend.Probe {
	c := &b.service
	probe := &backend.Probe{Interval: c.ProbeInterval, Timeout: c.ProbeTimeout, Fall: c.ProbeFall, Rise: c.ProbeRise}
	switch c.Probe {
	case "":
		return nil
	case "upgrade":
		return probe
	}
	probe.URL, _ = b.target.ResolveURL(c.Probe)
	return probe
}

// sameHandshake reports whether another plan has the same headers and TLS settings.
func (b *backendPlan) sameHandshake(next *backendPlan) bool {
	return maps.Equal(b.Headers, next.Headers) && b.TLSCA == next.TLSCA && b.TLSServerName == next.TLSServerName &&
		b.TLSInsecureSkipVerify == next.TLSInsecureSkipVerify && b.TLSCertificate == next.TLSCertificate && b.TLSKey == next.TLSKey
}

// equal reports whether two entities are equal.
func equal[E config.Service | config.Backend](a, b E) bool { return reflect.DeepEqual(a, b) }
