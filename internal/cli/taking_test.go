package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestTakings(t *testing.T) {
	before := config.NewContent()
	stt, open := config.DefaultService(), config.DefaultService()
	stt.Auth, open.Auth = []string{"keys"}, []string{"none"}
	before.Services["stt"], before.Services["open"] = stt, open
	for _, name := range []string{"gpu-1", "gpu-2", "many"} {
		b := config.DefaultBackend()
		b.Service = "stt"
		before.Backends[name] = b
	}
	before.Tenants["acme"], before.Keys["phone"] = config.Tenant{}, config.Key{}
	stats := &api.Stats{Backends: []api.Backend{
		{Name: "gpu-1"}, {Name: "gpu-2"}, {Name: "many@10.0.0.1:80", DiscoveredFrom: "many"}, {Name: "many@10.0.0.2:80", DiscoveredFrom: "many"},
	}}
	for i, sessions := range []int{3, 0, 1, 1} {
		stats.Backends[i].Leased = sessions
	}
	empty := config.NewContent()
	off := before.Clone()
	stt.Auth = nil
	off.Services["stt"], off.Services["open"] = stt, stt
	for what, c := range map[string]struct {
		to    config.Content
		stats *api.Stats
		want  []string
	}{
		"nothing":              {before.Clone(), stats, nil},
		"authentication":       {off, stats, []string{"the authentication of the service stt"}},
		"all":                  {empty, stats, []string{"the backend gpu-1, which has 3 sessions", "the backend many, which has 2 sessions", "the tenant acme", "the key phone"}},
		"all, without a proxy": {empty, nil, []string{"the tenant acme", "the key phone"}},
	} {
		if got := takings(&before, &c.to, c.stats); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q; want %q", what, got, c.want)
		}
	}
}

// What takes away authentication, tenants or keys needs --yes, and files that do not name tenants and keys leave them alone.
func TestTenantsAndKeysStay(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		s.must("tenant add acme")
		s.must("key add phone --tenant acme")
		s.must("service set stt --auth keys")
		without := s.write("services:\n  stt: {path: /v1/stt, profile: vosk}\nbackends:\n  gpu-1: {service: stt, url: ws://10.0.0.5:2700, connections: 8}\n")
		s.refuse(
			refusal{[]string{"config", "import", without}, 2, "takes away the authentication of the service stt: there is no terminal to ask on: use --yes"},
			refusal{[]string{"service", "set", "stt", "--auth", "none"}, 2, "takes away the authentication of the service stt"},
			refusal{[]string{"config", "import", without, "--with-tenants"}, 2, "the tenant acme, the key phone"},
			refusal{[]string{"tenant", "rm", "acme"}, 2, "takes away the tenant acme"},
			refusal{[]string{"config", "apply", without, "--with-tenants"}, 2, "add --prune"},
		)
		if _, out, _ := s.run("config", "diff", without, "--prune"); strings.Contains(out, "acme") || strings.Contains(out, "phone") {
			t.Errorf("a file that names no tenants would change them:\n%s", out)
		}
		if _, out, _ := s.run("config", "diff", without, "--prune", "--with-tenants"); !strings.Contains(out, "tenant acme: removed") || !strings.Contains(out, "key phone: removed") {
			t.Errorf("the difference does not name the tenant and the key:\n%s", out)
		}
		if _, out, messages := s.run("config", "import", without, "--with-tenants", "--dry-run"); !strings.Contains(out, "key phone: removed") || !strings.Contains(messages, "it needs --yes") {
			t.Errorf("the dry run says\n%s%s", out, messages)
		}
		s.must("config import --yes " + without)
		if out := s.must("config show"); !strings.Contains(out, "Tenants: acme") || !strings.Contains(out, "Keys: phone") {
			t.Errorf("what is left:\n%s", out)
		}
		s.must("key revoke phone") // its purpose is to take the key away
		s.must("config rollback --yes 6")
		if out := s.must("config show"); strings.Contains(out, "phone") {
			t.Errorf("a revoked key works again after a rollback:\n%s", out)
		}
		s.must("config import --yes --with-tenants " + without)
		if out := s.must("config show"); strings.Contains(out, "acme") {
			t.Errorf("a tenant is left:\n%s", out)
		}
	})
}
