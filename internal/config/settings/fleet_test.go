package settings

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFleetErrors has invalid settings of the fleet.
func TestFleetErrors(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"fleet", "on", `--fleet: unknown use of the fleet "on": use one of auto, off`},
		{"proxy-name", "a b", `--proxy-name: invalid name "a b": use letters, digits, '.', '_' and '-', at most 128`},
		{"proxy-name", "-a", `--proxy-name: invalid name "-a"`},
		{"fleet-address", "10.0.0.5:9090", `--fleet-address: invalid address "10.0.0.5:9090": use a URL such as https://10.0.0.5:9090`},
		{"fleet-address", "http://10.0.0.5/api", `--fleet-address: invalid address`},
		{"fleet-address", "http://me:s3cret@10.0.0.5", `--fleet-address: invalid address "http://(hidden)@10.0.0.5": put no user or password into it`},
		{"fleet-token", "s3cret", "--fleet-token: invalid reference"},
		{"grant-timeout", "5s", `--grant-timeout: invalid duration "5s": use a duration from 10s to 720h, or never`},
		{"grant-timeout", "none", `--grant-timeout: invalid duration "none"`},
		{"grant-floor", "-1", `--grant-floor: invalid number "-1"`},
		{"grant-share", "0", `--grant-share: invalid number "0": use a number from 0.01 to 100`},
		{"grant-without-database", "all", `--grant-without-database: invalid number "all": use a whole number from 0 to 1048576, or auto`},
	} {
		got := given{flags: []string{"--" + c.flag, c.value}}.errors(t)
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) || strings.Contains(got[0], "s3cret") {
			t.Errorf("--%s %s: %q; want %q", c.flag, c.value, got, c.want)
		}
	}
}

// TestFleetSettings reads the settings of the fleet that depend on others.
func TestFleetSettings(t *testing.T) {
	t.Setenv("OPERATOR", "of")
	t.Setenv("PEER", "peer")
	l := given{flags: []string{"--admin-token", "env:OPERATOR"}}.load(t)
	if l.ForFleet() != "of" || l.GrantTimeout != Never || l.GrantShare != 1 || l.GrantWithoutDatabase != Automatic || l.Name() == "" || checkProxyName(l.Name()) != nil {
		t.Errorf("%+v", l.Settings)
	}
	l = given{flags: []string{"--admin-token", "env:OPERATOR", "--fleet-token", "env:PEER", "--proxy-name", "proxy-a", "--grant-timeout", "1m"}}.load(t)
	if l.ForFleet() != "peer" || l.GrantTimeout != time.Minute || l.Name() != "proxy-a" || len(l.Warnings) != 0 {
		t.Errorf("%+v", l.Settings)
	}
	l = given{flags: []string{"--fleet", "off", "--grant-floor", "3"}}.load(t)
	if want := []string{"--grant-floor: no effect: fleet is off"}; !slices.Equal(l.Warnings, want) {
		t.Errorf("warnings: %q; want %q", l.Warnings, want)
	}
}
