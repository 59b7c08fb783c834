package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// server is a simulated inference server that can be reached through Toxiproxy only.
type server struct {
	t   testing.TB
	sim *sim.Server
	way *toxiproxy.Proxy
}

// startServer runs a server for the time of the test.
func startServer(t testing.TB, name string) *server {
	t.Helper()
	simulated, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulated.Close)
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	s := &server{t: t, sim: simulated, way: toxiproxy.NewProxy(api, name, "127.0.0.1:0", simulated.Addr().String())}
	if err := s.way.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.way.Stop)
	return s
}

// url returns the server's address for the proxy.
func (s *server) url() string { return "ws://" + s.way.Listen }

// The ways that a toxic can work on: from the proxy to the server, and back.
const (
	upstream   = "upstream"
	downstream = "downstream"
)

// toxic is something that Toxiproxy does to all connections of a server.
type toxic struct {
	server *server
	names  []string
}

// poison begins to do something to the server's connections, those that there are and those that come, in the given
// directions. The attributes are what Toxiproxy takes as JSON.
func (s *server) poison(kind, attributes string, directions ...string) *toxic {
	s.t.Helper()
	x := &toxic{server: s}
	for _, direction := range directions {
		x.add(kind, attributes, direction, 1)
	}
	return x
}

// willReset has Toxiproxy end this server's connections, from now on, by resets instead of in order. That must be said before
// there are any: Toxiproxy looks at it only when a connection begins. A toxic that is never in effect is enough.
func (s *server) willReset() {
	s.t.Helper()
	x := &toxic{server: s}
	x.add("reset_peer", "", upstream, 0)
}

func (x *toxic) add(kind, attributes, direction string, part int) {
	x.server.t.Helper()
	name := fmt.Sprintf("%s %s %d", kind, direction, part)
	_, err := x.server.way.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name": %q, "type": %q, "stream": %q, "toxicity": %d, "attributes": {%s}}`, name, kind, direction, part, attributes)))
	if err != nil {
		x.server.t.Fatalf("adding the toxic %s: %v", name, err)
	}
	x.names = append(x.names, name)
}

// heal ends it, and returns when it was over: when the server was back.
func (x *toxic) heal() time.Time {
	x.server.t.Helper()
	for _, name := range x.names {
		if err := x.server.way.Toxics.RemoveToxic(context.Background(), name); err != nil {
			x.server.t.Fatalf("removing the toxic %s: %v", name, err)
		}
	}
	return time.Now()
}
