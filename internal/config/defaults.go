package config

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// DefaultService returns the service that is meant when nothing is said about its fields.
func DefaultService() Service {
	return Service{
		Profile:      profile.Names()[0],
		Balance:      balances[0],
		HashBy:       "client",
		Queue:        1000,
		QueueTimeout: 10 * time.Second,

		MaxMessage: 16 << 20,

		ConnectionMaxAge:  time.Hour,
		ConnectionMaxIdle: time.Minute,
		DialParallel:      32,
		DialTimeout:       5 * time.Second,
		CloseTimeout:      5 * time.Second,

		PingInterval:    20 * time.Second,
		PingTimeout:     10 * time.Second,
		TCPUserTimeout:  30 * time.Second,
		ProbeInterval:   10 * time.Second,
		ProbeTimeout:    2 * time.Second,
		ProbeFall:       3,
		ProbeRise:       2,
		CircuitFailures: 5,
		SlowStart:       10 * time.Second,
	}
}

// DefaultBackend returns the backend that is meant when nothing is said about its fields. Service and URL have no default.
func DefaultBackend() Backend {
	return Backend{Connections: 100, Warm: -1, Weight: 1, State: states[0]}
}

// The names of the ways to choose a backend and of the states that an operator can set, the default first. They are those
// of package pool, which a test makes sure of.
var (
	balances = []string{"least-loaded", "round-robin", "random-two", "hash"}
	states   = []string{"enabled", "draining", "disabled"}
)
