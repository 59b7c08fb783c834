package backend

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/machine"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Options are the settings of a backend. All fields are required unless a default is named.
type Options struct {
	// Name is what logs call the backend; default the server's URL.
	Name string
	// Target is the server. Its URL cannot be changed.
	Target  *handshake.Target
	Profile *profile.Profile
	// Group is the pools of the backends that serve the same clients, which the backend's own becomes one of.
	Group *pool.Group[*Conn]
	// Variants are the meanings of the variants of connections; nil when there are none. Shared by the backends of a service.
	Variants *Variants
	// Peers compares the backend with the others of the service; nil for no comparison. Shared by the backends of a service.
	Peers *Peers
	// Passes tells that the service has its servers told what clients say in their handshakes, beside what the profile says.
	Passes bool
	// Settings are the size of the pool and the backend's part of the clients.
	Settings pool.Settings
	// Mode is what the operator wants of the backend at first.
	Mode pool.Mode
	// DialTimeout bounds connecting and the opening handshake; default 5 s.
	DialTimeout time.Duration
	// DialParallel is how many connections are dialed at once; default 32.
	DialParallel int
	// ResetTimeout bounds the reset of a connection, if the profile allows it longer; 0 for as long as that says.
	ResetTimeout time.Duration
	// CloseTimeout bounds the wait for a server's part in closing a connection; default 2 s.
	CloseTimeout time.Duration
	// MaxAge retires connections that have been open for so long, or up to a quarter less, once they are idle; 0 for never.
	MaxAge time.Duration
	// MaxIdle retires idle connections beyond the warm ones that nobody has used for so long; 0 for at once.
	MaxIdle time.Duration
	// VariantMaxIdle is for how long connections of a variant are kept warm that no client comes for; 0 for ever. It means
	// something with Settings.Variants only.
	VariantMaxIdle time.Duration
	// MaxSessions retires connections that have served so many sessions; 0 for never.
	MaxSessions uint64
	// PingInterval is the time between two pings on a connection, or up to a quarter less; 0 for no pings.
	PingInterval time.Duration
	// PingTimeout bounds the wait for a pong; default 5 s.
	PingTimeout time.Duration
	// CircuitFailures is how many failures in a row take the backend out of service: of dialing, or of sessions that it
	// broke; default 5.
	CircuitFailures int
	// SlowStart is the time in which a backend that was out of service gets its full share of the clients back; 0 for at
	// once.
	SlowStart time.Duration
	// Probe is how the backend is asked whether it is well; nil for not at all.
	Probe *Probe
	// Descriptors are the file descriptors that connections are dialed with; nil for without limits.
	Descriptors *machine.Descriptors
	// Loops are the event loops that the connections live on.
	Loops *loop.Group
	// Guard recovers from panics in the backend's goroutines; nil for not at all.
	Guard *mistake.Guard
	// Log gets a line for each change of state.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Name == "" && o.Target != nil {
		o.Name = o.Target.URL
	}
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&o.DialTimeout, 5*time.Second)
	def(&o.CloseTimeout, 2*time.Second)
	def(&o.PingTimeout, 5*time.Second)
	if o.CircuitFailures <= 0 {
		o.CircuitFailures = 5
	}
	if o.Probe != nil {
		probe := *o.Probe
		probe.setDefaults()
		o.Probe = &probe
	}
	if o.DialParallel <= 0 {
		o.DialParallel = 32
	}
}

// expected returns the variant that is kept warm before the first client has come: that of a client who says nothing.
func (o *Options) expected() (name string, ok bool) {
	if !o.Profile.Variants() {
		return "", true
	}
	v, err := o.Profile.Variant("", func(string) []string { return nil })
	if err != nil || v.Private || o.Variants == nil {
		return "", false
	}
	return o.Variants.Name(v), true
}

// keepTo makes the limits at most those of the profile, which are below the server's own.
func (o *Options) keepTo(p *profile.Profile) {
	if l := p.Limits.Sessions; l > 0 && (o.MaxSessions == 0 || o.MaxSessions > uint64(l)) {
		o.MaxSessions = uint64(l)
	}
	if l := p.Limits.Age; l > 0 && (o.MaxAge == 0 || o.MaxAge > l) {
		o.MaxAge = l
	}
	if p.Ping > 0 && o.PingInterval > p.Ping {
		o.PingInterval = p.Ping
	}
	o.Settings = keepSettingsTo(o.Settings, p)
}

// keepSettingsTo makes the size of the pool fit the profile.
func keepSettingsTo(s pool.Settings, p *profile.Profile) pool.Settings {
	if p.Predial == profile.PredialNever {
		s.Warm = 0
	}
	if p.Variants() || p.Sticks() {
		s.Variants = p.MaxVariants()
	}
	return s
}
