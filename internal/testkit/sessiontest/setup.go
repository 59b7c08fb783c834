package sessiontest

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Setup is what a test wants to be different.
type Setup struct {
	Profile string // default one-shot
	Cap     int    // default 1, all of them warm
	Loops   int    // default 1
	Queue   int    // default 0: clients do not wait; otherwise they do for an hour
	Balance pool.Balance
	Now     func() pool.Instant // the group's clock; default the real one
	TLS     bool                // servers and clients speak TLS
	Script  *wstest.Server
	More    []*wstest.Server // of further backends of the service
	Other   *wstest.Server   // of the only backend of another service, at /v1/other
	Gate    func(*admission.Options)
	// Recovers gets the guard of a rig that continues after panics; nil for one that does not.
	Recovers func(*panics.Guard)
	Service  func(*route.Service)
	Backend  func(*backend.Options)
}

// Failover returns the setup of a rig with several servers, whose sessions may outlive them.
func Failover(profile string, servers int, o Setup) Setup {
	scripts := make([]*wstest.Server, servers)
	for i := range scripts {
		scripts[i] = new(wstest.Server)
	}
	o.Profile, o.Script, o.More = profile, scripts[0], scripts[1:]
	service := o.Service
	o.Service = func(s *route.Service) {
		s.Failover, s.ReplayWindow = true, 15*time.Second
		s.QueueTimeout = wstest.Timeout
		if service != nil {
			service(s)
		}
	}
	return o
}
