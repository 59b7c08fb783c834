package app

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// TestBackendsOwnSettings reads backends whose settings are their own.
func TestBackendsOwnSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text     string
		url      string
		settings size
		mode     string
	}{
		{"ws://h", "ws://h", size{10, 4, 1}, "enabled"},
		{"ws://h,connections=5", "ws://h", size{5, 4, 1}, "enabled"},
		{"ws://h,connections=3", "ws://h", size{3, 3, 1}, "enabled"}, // not the 4 for all
		{"ws://h,connections=20,warm=20", "ws://h", size{20, 20, 1}, "enabled"},
		{"ws://h,warm=0", "ws://h", size{10, 0, 1}, "enabled"},
		{"ws://h,weight=0.5", "ws://h", size{10, 4, 0.5}, "enabled"},
		{"ws://h,weight=1000", "ws://h", size{10, 4, 1000}, "enabled"},
		{"ws://h,state=enabled", "ws://h", size{10, 4, 1}, "enabled"},
		{"ws://h,state=draining", "ws://h", size{10, 4, 1}, "draining"},
		{
			"ws://h:9001/stt,state=disabled,weight=2,warm=1,connections=32", "ws://h:9001/stt",
			size{32, 1, 2},
			"disabled",
		},
		// Commas of the URL's own.
		{"ws://h/a,b", "ws://h/a,b", size{10, 4, 1}, "enabled"},
		{"ws://h/a,b,warm=2", "ws://h/a,b", size{10, 2, 1}, "enabled"},
		{"ws://h/?tags=a,b,lang=de", "ws://h/?tags=a,b,lang=de", size{10, 4, 1}, "enabled"},
		{"ws://h/?tags=a,b,lang=de,weight=3", "ws://h/?tags=a,b,lang=de", size{10, 4, 3}, "enabled"},
		{"ws://h/?a=b%2Cwarm=2", "ws://h/?a=b%2Cwarm=2", size{10, 4, 1}, "enabled"},
	} {
		s := validSettings()
		s.Connections, s.Warm = 10, 4
		given, err := s.parseBackend(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := (size{given.Connections, given.WarmCount(), given.Weight}); given.URL != c.url || got != c.settings || given.State != c.mode {
			t.Errorf("%s is %+v; want %s, %+v, %v", c.text, given.Backend, c.url, c.settings, c.mode)
		}
	}
	s := validSettings()
	given, err := s.parseBackend("ws://h:9001/stt,warm=2,discover=dns,discover-interval=7s")
	if err != nil || given.URL != "ws://h:9001/stt" || given.Discover != config.DiscoverDNS || given.DiscoverInterval != 7*time.Second {
		t.Errorf("with discover, a backend is %+v, %v", given, err)
	}
	given, err = s.parseBackend("wss://h:9001,tls-ca=/etc/ca.pem,warm=2")
	if err != nil || given.URL != "wss://h:9001" || given.TLSCA != "/etc/ca.pem" || given.WarmCount() != 2 {
		t.Errorf("with tls-ca, a backend is %+v, %v", given, err)
	}
	s = validSettings() // without a number for all, all connections are warm
	if given, err := s.parseBackend("ws://h,connections=7"); err != nil || given.WarmCount() != 7 {
		t.Errorf("%+v, %v; want 7 warm", given, err)
	}
}

// What is wrong with a backend is said without the password or key in it.
func TestBackendErrorHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"user:HUSH@h:80", "user:HUSH@h:80,weight=x", "ws:/user:HUSH@h:80", "ws://user:HUSH@h", "ws://user:HUSH/a@h", "ws://user:1,HUSH=2@h", "ws://h/#api_key=HUSH",
		"ws://h/?api_key=HUSH,weight=x", "ws://h/?a=b;api_key=HUSH,weight=x",
	} {
		s := validSettings()
		s.Backends = []string{text}
		if err := s.Check(); err == nil || strings.Contains(err.Error(), "HUSH") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// size is what the settings of a backend say.
type size struct {
	connections, warm int
	weight            float64
}

// TestBadBackends has each error named with its flag, the backend, its value and what is allowed.
func TestBadBackends(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ws://h,connections=0":                     `connections: invalid number "0": use a whole number from 1 to 100000, or auto`,
		"ws://h,connections=-5":                    `connections: invalid number "-5": use a whole number from 1 to 100000, or auto`,
		"ws://h,connections=100001":                `connections: invalid number "100001": use a whole number from 1 to 100000, or auto`,
		"ws://h,connections=":                      "connections: the value is missing",
		"ws://h,connections=many":                  `connections: invalid number "many": use a whole number from 1 to 100000, or auto`,
		"ws://h,connections=1.5":                   `connections: invalid number "1.5": use a whole number from 1 to 100000, or auto`,
		"ws://h,connections=99999999999999999999":  `connections: invalid number "99999999999999999999": use a whole number from 1 to 100000, or auto`,
		"ws://h,warm=-1":                           `warm: invalid number "-1": use a whole number from 0 to the cap, or cap for all of it`,
		"ws://h,warm=101":                          `warm: invalid number "101": use a whole number from 0 to the cap of 100 connections`,
		"ws://h,connections=5,warm=6":              `warm: invalid number "6": use a whole number from 0 to the cap of 5 connections`,
		"ws://h,warm=6,connections=5":              `warm: invalid number "6": use a whole number from 0 to the cap of 5 connections`,
		"ws://h,warm=few":                          `warm: invalid number "few": use a whole number from 0 to the cap, or cap for all of it`,
		"ws://h,weight=-1":                         `weight: invalid number "-1": use a number from 0 to 1000`,
		"ws://h,weight=NaN":                        `weight: invalid number "NaN": use a number from 0 to 1000`,
		"ws://h,weight=Inf":                        `weight: invalid number "Inf": use a number from 0 to 1000`,
		"ws://h,weight=1001":                       `weight: invalid number "1001": use a number from 0 to 1000`,
		"ws://h,weight=1e999":                      `weight: invalid number "1e999": use a number from 0 to 1000`,
		"ws://h,weight=":                           "weight: the value is missing",
		"ws://h,weight=half":                       `weight: invalid number "half": use a number from 0 to 1000`,
		"ws://h,discover=srv":                      `discover: unknown way to discover servers "srv": use one of dns, kubernetes`,
		"ws://h,discover=dns,discover-interval=0s": `discover-interval: invalid duration "0s": use a duration from 1s to 720h`,
		"ws://h,state=off":                         `state: unknown state "off": use one of enabled, draining, disabled`,
		"ws://h,state=Enabled":                     `state: unknown state "Enabled": did you mean "enabled"? Use one of enabled, draining, disabled`,
		"ws://h,state=":                            "state: the value is missing",
		"ws://h,warm=1,warm=2":                     "warm is set twice",
		"ws://h/stt,conections=32":                 `unknown setting "conections": did you mean "connections"? Use one of connections, connections-max, warm, weight, state, discover, discover-interval, tls-ca (write a comma in a path as %2C)`,
		"ws://h,Warm=3":                            `unknown setting "Warm": did you mean "warm"? Use one of connections, connections-max, warm, weight, state, discover, discover-interval, tls-ca (write a comma in a path as %2C)`,
		"ws://h,timeout=3,warm=2":                  `unknown setting "timeout": use one of connections, connections-max, warm, weight, state, discover, discover-interval, tls-ca (write a comma in a path as %2C)`,
		"ws://h,state=draining,weight=x,warm=nine": `warm: invalid number "nine": use a whole number from 0 to the cap, or cap for all of it`, // the first that is found
	} {
		s := validSettings()
		s.Backends = []string{"ws://other", text}
		want := fmt.Sprintf("--backend: %q: %s", text, want)
		if err := s.Check(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	s := validSettings()
	s.Queue, s.Backends = 0, []string{"ws://h,warm=0"}
	if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), `--backend: "ws://h,warm=0": warm: 0 needs a queue and a queue-timeout, `) {
		t.Errorf("got %v", err)
	}
	s = validSettings() // what is wrong for all is named once
	s.Connections, s.Backends = 0, []string{"ws://a,weight=2", "ws://b,state=draining", "ws://c,connections=5"}
	if err := s.Check(); err == nil || err.Error() != `--connections: invalid number "0": use a whole number from 1 to 100000, or auto` {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]string{
		"http://h,warm=1": `invalid URL "http://h": the scheme must be ws or wss`,
		",warm=1":         "the value is missing: use a URL such as ws://10.0.0.5:2700/path",
		"warm=1":          `invalid URL "warm=1": use a URL such as ws://10.0.0.5:2700/path`,
		"ws://:9,warm=1":  `invalid URL "ws://:9": the host is missing: use a URL such as ws://10.0.0.5:2700/path`,
	} {
		s := validSettings()
		s.Backends = []string{text}
		if err := s.Check(); err == nil || err.Error() != "--backend: "+want {
			t.Errorf("got  %v\nwant --backend: %s", err, want)
		}
	}
}

// TestAllWeightsZero refuses backends of which none would get a client.
func TestAllWeightsZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backends []string
		fine     bool
	}{
		{[]string{"ws://a,weight=0"}, false},
		{[]string{"ws://a,weight=0", "ws://b,weight=0.0"}, false},
		{[]string{"ws://a,weight=0", "ws://b"}, true},
		{[]string{"ws://a,weight=0", "ws://b,weight=0.001"}, true},
	} {
		s := validSettings()
		s.Backends = c.backends
		err := s.Check()
		if (err == nil) != c.fine || err != nil && !strings.HasPrefix(err.Error(), "--backend: the weights of all its backends are 0, ") {
			t.Errorf("%q: %v", c.backends, err)
		}
	}
	s := validSettings()
	s.Backends = []string{"ws://a,weight=0", "http://b"} // the other may have a weight once it is right
	if err := s.Check(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one error", err)
	}
}

// TestSameBackend tells servers apart however they are spelt, and whatever settings they have.
func TestSameBackend(t *testing.T) {
	t.Parallel()
	const first = "ws://host.example:80/a?b=c"
	for second, same := range map[string]bool{
		"ws://host.example:80/a?b=c": true, "ws://host.example/a?b=c": true, "WS://HOST.example/a?b=c": true,
		"ws://host.example:80/a?b=c,warm=1": true, "ws://Host.example/a?b=c,weight=2,connections=1000": true,
		"ws://host.example:81/a?b=c": false, "ws://host.example/A?b=c": false, "ws://host.example/a": false,
		"ws://other.example/a?b=c": false, "ws://host.example:80/a?b=c,d": false,
	} {
		for _, own := range []string{"", ",connections=7"} {
			s := validSettings()
			s.Backends = []string{first + own, second}
			err := s.Check()
			if (err != nil) != same || err != nil && !strings.HasSuffix(err.Error(), ", and two backends for one server would exceed its cap") {
				t.Errorf("%s%s and %s: %v", first, own, second, err)
			}
		}
	}
}

// TestBadProbes refuses what no backend can be probed by, once for all.
func TestBadProbes(t *testing.T) {
	t.Parallel()
	for probe, want := range map[string]string{
		"ftp://h/health":       `invalid probe "ftp://h/health" (the scheme must be http or https): use upgrade, a path such as /health, `,
		"ws://h/health":        `invalid probe "ws://h/health" (the scheme must be http or https): use upgrade, `,
		"health":               `invalid probe "health" (the scheme must be http or https): use upgrade, `,
		"//h/health":           `invalid probe "//h/health" (the scheme must be http or https): use upgrade, `,
		"Upgrade":              `invalid probe "Upgrade" (the scheme must be http or https): use upgrade, `,
		"127.0.0.1:8000/x":     `invalid probe "127.0.0.1:8000/x": use upgrade, `,
		"http://%zz/":          `invalid probe "http://%zz/": use upgrade, `,
		"http:///health":       `invalid probe "http:///health" (the host is missing): use upgrade, `,
		"http://h:0/health":    `invalid probe "http://h:0/health" (the port must be a number from 1 to 65535): use upgrade, `,
		"http://h:65536/x":     `invalid probe "http://h:65536/x" (the port must be a number from 1 to 65535): use upgrade, `,
		"http://:65536/health": `invalid probe "http://:65536/health" (the port must be a number from 1 to 65535): use upgrade, `,
	} {
		s := validSettings()
		s.Probe, s.Backends = probe, []string{"ws://a", "ws://b"}
		err := s.Check()
		if err == nil || !strings.HasPrefix(err.Error(), "--probe: "+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want only --probe: %s", err, want)
		}
	}
}

// Of the configuration that flags describe, only what they refer to is read besides what the settings allow: others may add backends.
func TestSecretsInFlagsOnlyOperation(t *testing.T) {
	s := validSettings()
	s.Listen, s.Backends = []string{"127.0.0.1:0"}, []string{"ws://127.0.0.1:1/?key=env:X_GIVEN,warm=0", "ws://127.0.0.1:2/?key=file:/x/given,warm=0"}
	p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Shutdown()
	for reference, allowed := range map[string]bool{
		"env:X_GIVEN": true, "file:/x/given": true, "env:WSBOUNCER_SECRET_X": true, "env:X_OTHER": false, "file:/x/other": false,
	} {
		if err := p.secrets.Check(reference); (err == nil) != allowed {
			t.Errorf("%s: %v", reference, err)
		}
	}
}
