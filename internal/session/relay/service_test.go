package relay

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Sessions go to the backend of which the smallest share is in use.
func TestLeastLoaded(t *testing.T) {
	caps := []int{6, 3}
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, More: []*wstest.Server{{Serve: wstest.Echo}}, Backend: func(o *backend.Options) {
		o.Settings.Cap, caps = caps[0], caps[1:]
		o.Settings.Warm = o.Settings.Cap
	}})
	large, small := r.Backends[0], r.Backends[1]
	r.AllReady(6, large)
	r.AllReady(3, small)
	for round := 1; round <= 3; round++ {
		for range 3 {
			r.Connect(wstest.UpgradeRequest("/v1/test")).ExpectUpgrade()
		}
		if l, s := large.Stats().Leased, small.Stats().Leased; l != 2*round || s != round {
			t.Errorf("%d and %d connections are leased; want %d and %d", l, s, 2*round, round)
		}
	}
	sessiontest.ExpectUnavailable(t, r.Connect(wstest.UpgradeRequest("/v1/test")), "all connections are in use")
}

// Clients of the same name get the same backend, and those of other names are spread.
func TestHashBalance(t *testing.T) {
	header := func(name string) string { return wstest.UpgradeRequest("/v1/test", "X-Device: "+name) }
	query := func(name string) string { return wstest.UpgradeRequest("/v1/test?a=b&device=" + url.QueryEscape(name)) }
	for _, c := range []struct {
		name    string
		by      route.HashBy
		request func(name string) string
		spread  bool
	}{
		{"header", route.HashBy{Header: "x-device"}, header, true},
		{"query", route.HashBy{Query: "device"}, query, true},
		{"client's address", route.HashBy{}, header, false}, // all come from the same one
		{"missing header", route.HashBy{Header: "X-Other"}, header, false},
		{"missing parameter", route.HashBy{Query: "other"}, query, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{
				Profile: "echo", Cap: 2, Balance: pool.Hash, Script: &wstest.Server{Serve: wstest.Echo}, More: []*wstest.Server{{Serve: wstest.Echo}, {Serve: wstest.Echo}},
				Service: func(s *route.Service) { s.HashBy = c.by },
			})
			r.AllReady(2, r.Backends...)
			used := make(map[string]int)
			const names = 20 // all on one backend by chance: once in a billion
			for i := range names {
				name, before := fmt.Sprint("device ", i), ""
				for range 3 {
					r.AllReady(2, r.Backends...)
					p := r.Connect(c.request(name))
					p.ExpectUpgrade()
					p.SendClose(frame.NormalClosure, "")
					p.ExpectClose(frame.NormalClosure, "")
					_ = p.Close()
					address := r.Record()["backend"].String()
					if before != "" && address != before {
						t.Errorf("%s got %s and %s", name, before, address)
					}
					before = address
				}
				used[before]++
			}
			if spread := len(used) > 1; spread != c.spread {
				t.Errorf("backends: %v", used)
			}
		})
	}
}

// A client that has a name keeps it, whatever else its request says.
func TestHashKeys(t *testing.T) {
	request := func(target, value string) *handshake.Request {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		return &handshake.Request{Request: &http.Request{URL: u, Header: http.Header{"X-Device": {value}}}}
	}
	one, other := request("/?d=1&e=2", "a"), request("/x?e=1&d=1", "b")
	for _, c := range []struct {
		by              route.HashBy
		address, second string
		same            bool
	}{
		{route.HashBy{}, "192.0.2.1", "192.0.2.1", true},
		{route.HashBy{}, "192.0.2.1", "192.0.2.2", false},
		{route.HashBy{Query: "d"}, "192.0.2.1", "192.0.2.2", true},
		{route.HashBy{Query: "e"}, "192.0.2.1", "192.0.2.1", false},
		{route.HashBy{Header: "x-device"}, "192.0.2.1", "192.0.2.1", false},
		{route.HashBy{Header: "X-Absent"}, "192.0.2.1", "192.0.2.2", true},
	} {
		if same := c.by.Key(one, c.address) == c.by.Key(other, c.second); same != c.same {
			t.Errorf("%+v from %s and %s: the same %v; want %v", c.by, c.address, c.second, same, c.same)
		}
	}
}
