package app

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// A change may name a service more than once: its path is that of the last mutation that sets one.
func TestRefusesServiceAtHealthPath(t *testing.T) {
	p := new(Proxy)
	p.settings.HealthPath = "/healthz"
	mutation := func(verb config.Verb, values config.Values) config.Mutation {
		return config.Mutation{Verb: verb, Kind: config.KindService, Name: "stt", Values: values}
	}
	add, set := mutation(config.Add, config.Values{"path": "/healthz"}), mutation(config.Set, config.Values{"queue": "8"})
	elsewhere, remove := mutation(config.Set, config.Values{"path": "/v1/stt"}), mutation(config.Remove, nil)
	for name, c := range map[string]struct {
		mutations []config.Mutation
		refused   bool
	}{
		"alone":                   {[]config.Mutation{add}, true},
		"another field is set":    {[]config.Mutation{add, set}, true},
		"another path is set":     {[]config.Mutation{add, elsewhere}, false},
		"removed":                 {[]config.Mutation{add, remove}, false},
		"removed and added again": {[]config.Mutation{remove, add, set}, true},
	} {
		if err := p.refuse(config.Change{Mutations: c.mutations}); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
