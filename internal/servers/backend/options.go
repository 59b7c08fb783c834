package backend

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Options are the settings of a backend. All fields are required unless a default is named.
type Options struct {
	// Name is what logs call the backend; default the server's URL.
	Name string
	// Target is the server. Its URL cannot be changed.
	Target  *handshake.Target
	Profile *profile.Profile
	// Group has the pools of the backends that serve the same clients. The backend's own pool is added to it.
	Group *pool.Group[*Conn]
	// Variants says what the names of variants stand for; nil when there are none. Shared by the backends of a service.
	Variants *Variants
	// Peers compares the backends of a service, which share it; nil for no comparison.
	Peers *Peers
	// Passes tells that the service passes parts of clients' handshakes on, besides those that the profile passes.
	Passes bool
	// Settings are the size of the pool and the backend's share of the clients.
	Settings pool.Settings
	// Mode is the desired state of the backend at first.
	Mode pool.Mode
	// DialTimeout bounds connecting and the opening handshake; default 5 s.
	DialTimeout time.Duration
	// CloseTimeout bounds the wait for a server to close its side of a connection; default 2 s.
	CloseTimeout time.Duration
	// MaxAge is the age, or up to a quarter less, at which connections are retired once they are idle; 0 for no limit.
	MaxAge time.Duration
	// MaxIdle is how long idle connections beyond the warm ones are kept; 0 for not at all.
	MaxIdle time.Duration
	// VariantMaxIdle is how long connections of a variant that no client requests are kept warm; 0 for ever. It matters with
	// Settings.Variants only.
	VariantMaxIdle time.Duration
	// MaxSessions is after how many sessions a connection is retired; 0 for no limit.
	MaxSessions uint64
	// PingInterval is the time between two pings on a connection, or up to a quarter less; 0 for no pings.
	PingInterval time.Duration
	// PingTimeout bounds the wait for a pong; default 5 s.
	PingTimeout time.Duration
	// CircuitFailures is how many failed dials, or broken sessions, in a row open the circuit; default 5.
	CircuitFailures int
	// SlowStart is how long it takes a backend that was out of service to get its full share of the clients back; 0 for no time.
	SlowStart time.Duration
	// StallTimeout is after how long a session that has had no result has stalled; 0 if sessions are not watched for that.
	StallTimeout time.Duration
	// LagLimit is the most that results may be late before the server gets no new sessions; 0 for no limit. See [Backend.SessionsLag].
	LagLimit time.Duration
	// Probe is how the backend is probed; nil for not at all.
	Probe *Probe
	// Capacity gets what the server publishes of its capacity; nil if nothing is read. It cannot be changed.
	Capacity CapacityTaker
	// FollowsCapacity tells that the number of connections depends on it, so that it is read as often as the profile says, wherever that is.
	FollowsCapacity bool
	// Canary is what the server is played now and then; nil for nothing.
	Canary *Canary
	// Descriptors limits the file descriptors that dials may use; nil for no limit.
	Descriptors *machine.Descriptors
	// Permission says whether the server may be dialed at all; nil for always. It cannot be changed.
	Permission Permission
	// Loops are the event loops that the connections live on.
	Loops *loop.Group
	// Meter has the counters, which the caller holds until it closes the backend, or has given it others; default new ones.
	Meter *meter.Backend
	// Guard recovers from panics in the backend's goroutines; nil for not at all.
	Guard *panics.Guard
	// Log gets a line for each change of state.
	Log *slog.Logger
}

// CapacityTaker gets each reading of what a server publishes of its capacity, or the error of the attempt, in a goroutine of the backend. held is how
// many connections the backend had. The call must not wait for the backend to end.
type CapacityTaker interface {
	CapacityRead(r capacity.Reading, held int, err error)
}

// Permission says whether servers may be dialed at this moment. MayDial must not block. While it returns false, a backend asks about once a
// second.
type Permission interface{ MayDial() bool }

func (o *Options) setDefaults() {
	if o.Name == "" && o.Target != nil {
		o.Name = o.Target.URL
	}
	setDefault(&o.DialTimeout, 5*time.Second)
	setDefault(&o.CloseTimeout, 2*time.Second)
	setDefault(&o.PingTimeout, 5*time.Second)
	setDefault(&o.CircuitFailures, 5)
	if o.Probe != nil {
		probe := *o.Probe
		probe.setDefaults()
		o.Probe = &probe
	}
	if o.Canary != nil {
		canary := *o.Canary
		canary.setDefaults()
		o.Canary = &canary
	}
	if o.Meter == nil && o.Loops != nil {
		o.Meter = meter.NewBackend(len(o.Loops.Loops()))
	}
}

// expected returns the variant that is kept warm before the first client has come: that of a client without its own parameters.
func (o *Options) expected() (name string, ok bool) {
	if !o.Profile.Variants() {
		return "", true
	}
	v, err := o.Profile.Variant("", func(string) []string { return nil })
	if err != nil || v.Private || o.Variants == nil {
		return "", false
	}
	return o.Variants.Name(v, Client{}), true
}

// keepTo lowers the limits to those of the profile, which are below the server's own.
func (o *Options) keepTo(p *profile.Profile) {
	if l := p.Limits.Sessions; l > 0 && (o.MaxSessions == 0 || o.MaxSessions > uint64(l)) {
		o.MaxSessions = uint64(l)
	}
	for _, l := range []time.Duration{p.Limits.Age, p.MaxAge / 2} { // half of what the server allows is left to the session that begins last
		if l > 0 && (o.MaxAge == 0 || o.MaxAge > l) {
			o.MaxAge = l
		}
	}
	if p.Ping > 0 && o.PingInterval > p.Ping {
		o.PingInterval = p.Ping
	}
	o.Settings = keepSettingsTo(o.Settings, p)
}

// keepSettingsTo adapts the size of the pool to the profile.
func keepSettingsTo(s pool.Settings, p *profile.Profile) pool.Settings {
	if p.Predial == profile.PredialNever {
		s.Warm = 0
	}
	if p.Variants() || p.Sticks() {
		s.Variants = p.MaxVariants()
	}
	return s
}
