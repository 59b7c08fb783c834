package cli

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestTakings(t *testing.T) {
	before := config.NewContent()
	stt, open := config.DefaultService(), config.DefaultService()
	stt.Auth, open.Auth = []string{"keys"}, []string{"none"}
	stt.Path, open.Path = "/stt", "/open"
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
	stt.Auth, open.Auth = nil, nil
	off.Services["stt"], off.Services["open"] = stt, open
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
		if got := takings(&before, &c.to, c.stats, ""); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q; want %q", what, got, c.want)
		}
	}
}

// A service without authentication that gets what a protected one had is named, whatever it is called.
func TestOpenedByAnotherService(t *testing.T) {
	service := func(path string, auth ...string) config.Service {
		s := config.DefaultService()
		s.Path, s.Auth = path, auth
		return s
	}
	backend := func(service, url string) config.Backend {
		b := config.DefaultBackend()
		b.Service, b.URL = service, url
		return b
	}
	before := config.NewContent()
	before.Services["v"], before.Services["open"], before.Services["spare"] = service("/v", "keys"), service("/open"), service("/spare", "keys")
	before.Backends["v1"], before.Backends["o1"] = backend("v", "ws://10.0.0.1:2700"), backend("open", "ws://10.0.0.2:2700/a")
	const path = "the authentication of the path /v (the service v2 serves it without)"
	for what, c := range map[string]struct {
		change func(to *config.Content)
		want   []string
	}{
		"a renamed service": {func(to *config.Content) {
			delete(to.Services, "v")
			to.Services["v2"], to.Backends["v1"] = service("/v", "none"), backend("v2", "ws://10.0.0.1:2700")
		}, []string{path, "the authentication of the backend v1 (clients of the service v2 reach it without)"}},
		"a renamed backend": {func(to *config.Content) {
			delete(to.Backends, "v1")
			to.Backends["x"] = backend("open", "ws://10.0.0.1:2700/other")
		}, []string{"the authentication of the backend x (clients of the service open reach it without)"}},
		"a moved backend": {
			func(to *config.Content) { to.Backends["v1"] = backend("open", "ws://10.0.0.1:2700") },
			[]string{"the authentication of the backend v1 (clients of the service open reach it without)"},
		},
		"a service for a host": {func(to *config.Content) {
			s := service("/v")
			s.Host = "a.example"
			to.Services["v2"] = s
		}, []string{"the authentication of the path /v of the host a.example (the service v2 serves it without)"}},
		"a service of all paths": {func(to *config.Content) { delete(to.Services, "v"); to.Services["v2"] = service("") }, []string{path}},
		"its own authentication": {func(to *config.Content) { to.Services["v"] = service("/v") }, []string{"the authentication of the service v"}},
		"a protected service":    {func(to *config.Content) { to.Backends["v1"] = backend("spare", "ws://10.0.0.1:2700") }, nil},
		"another open service": {func(to *config.Content) {
			to.Services["new"], to.Backends["n1"], to.Backends["o1"] = service("/new"), backend("new", "ws://10.0.0.3:2700"), backend("new", "ws://10.0.0.2:2700/b")
		}, nil},
	} {
		to := before.Clone()
		c.change(&to)
		if got := takings(&before, &to, nil, ""); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q; want %q", what, got, c.want)
		}
	}
}

// A key that is replaced or that is good for more than before is named.
func TestKeysReplaced(t *testing.T) {
	before := config.NewContent()
	before.Keys["kf"] = config.Key{Hash: "a", Tenant: "acme", Services: []string{"stt", "tts"}}
	for _, c := range []struct {
		to   config.Key
		want []string
	}{
		{config.Key{Hash: "a", Tenant: "acme", Services: []string{"stt"}}, nil},
		{config.Key{Hash: "b", Tenant: "acme", Services: []string{"stt"}}, []string{"the present key kf (its hash changes, so the old key no longer works)"}},
		{config.Key{Hash: "a"}, []string{"the restriction of the key kf to the tenant acme", "the restriction of the key kf to the services stt and tts"}},
	} {
		to := before.Clone()
		to.Keys["kf"] = c.to
		if got := takings(&before, &to, nil, ""); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q; want %q", c.to, got, c.want)
		}
	}
}

// Where it is not known whether a server has sessions, its removal must be confirmed.
func TestSessionsNotKnown(t *testing.T) {
	s := onDatabase(t).begin()
	s.refuse(refusal{[]string{"backend", "rm", "gpu-1"}, 2, "the enabled backend gpu-1 (sessions are not known: no proxy was asked)"})
	s.must("backend disable gpu-1", "backend rm gpu-1", "backend rm gpu-2 --yes")
	if got := (&target{proxy: new(remote.Client)}).unknownSessions(&api.Stats{Fleet: &api.Fleet{Missing: make([]api.MissingProxy, 1)}}); got == "" {
		t.Error("the sessions of a proxy that does not answer pass for known")
	}
}

// Sessions at other proxies of the fleet count.
func TestTakingAsksTheFleet(t *testing.T) {
	var f writeFlags
	f.add(new(cobra.Command))
	if !f.whole {
		t.Error("changes ask for this proxy's sessions only")
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
			refusal{[]string{"config", "import", without}, 2, "takes away the authentication of the service stt"},
			refusal{[]string{"service", "set", "stt", "--auth", "none"}, 2, "takes away the authentication of the service stt"},
			refusal{[]string{"config", "import", without, "--with-tenants"}, 2, "the tenant acme, the key phone"},
			refusal{[]string{"tenant", "rm", "acme"}, 2, "takes away the tenant acme: there is no terminal to ask on: use --yes"},
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

// What replaces an invalid configuration, whose tenants and keys cannot be read, does not replace them unasked.
func TestTenantsOfInvalid(t *testing.T) {
	s := onDatabase(t)
	s.must("service add stt --path /v1/stt")
	s.must("key add phone")
	s.must("key revoke phone")
	file := s.write(s.must("config export"))
	spoil := func() {
		t.Helper()
		db, err := sql.Open("sqlite", s.database)
		if err == nil {
			_, err = db.ExecContext(t.Context(), "UPDATE services SET keepalive = 'true'")
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	spoil()
	for _, command := range [][]string{{"config", "rollback", "2"}, {"config", "import", file}, {"config", "apply", file, "--prune"}} {
		s.refuse(
			refusal{append(command, "--yes"), 1, "its tenants and keys cannot be kept: correct it with 'set' or 'rm' if one thing is invalid, or add --with-tenants"},
			refusal{append(command, "--with-tenants"), 2, "a revoked key may work again: there is no terminal to ask on: use --yes"},
		)
	}
	s.refuse(refusal{[]string{"config", "apply", file}, 1, "so nothing can be added to it: correct it with 'set' or 'rm'"})
	s.must("config rollback 2 --with-tenants --yes")
	if out := s.must("config show"); !strings.Contains(out, "phone") {
		t.Errorf("what is back:\n%s", out)
	}
	spoil()
	s.must("service set stt --keepalive=false") // a change that corrects it needs nothing
}
