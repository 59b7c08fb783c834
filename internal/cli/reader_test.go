package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Who may only read sees hidden values, of each kind that there is, and can still try a change out. What is made invalid is refused as ever, and the
// refusal of the change itself names the ways to make it.
func TestDryRunOfReader(t *testing.T) {
	s := onProxyHiding(t, admin.Access{Trusted: func(*http.Request) string { return api.RoleReader }, Socket: "/run/ws/admin.sock"})
	proxy := s.where
	s.where = []string{"--database", s.database}
	s.must(
		"service add stt --path /v1/stt --profile vosk --set-header X-Customer=acme --auth keys",
		"backend add gpu-1 ws://10.0.0.5:2700/?token=env:KEY1 --connections 8 --header X-Tenant=s3cret",
		"service add own --path /own --auth external --auth-url https://auth.example/check",
		"key add acme --tenant acme",
		"key add other --tenant acme",
		"tenant add acme",
	)
	s.where = proxy
	for line, want := range map[string]string{
		"tenant set acme --session-limit 3 --dry-run":                                  "tenant acme: session-limit",
		"tenant add globex --dry-run":                                                  "tenant globex: added",
		"tenant rm acme --dry-run --yes":                                               "tenant acme: removed",
		"key set acme --tenant globex --dry-run --yes":                                 "key acme: tenant acme -> globex",
		"backend set gpu-1 --connections 9 --dry-run":                                  "connections 8 -> 9",
		"service set stt --queue 5 --dry-run":                                          "queue",
		"backend add gpu-2 ws://10.0.0.6:2700 --service stt --connections 1 --dry-run": "backend gpu-2: added",
		"backend rm gpu-1 --dry-run --yes":                                             "backend gpu-1: removed",
	} {
		if out := s.must(line); !strings.Contains(out, want) || !strings.Contains(out, "Dry run: nothing was changed.") || strings.Contains(out, "s3cret") {
			t.Errorf("%s:\n%s\nwant %s", line, out, want)
		}
	}
	s.access = api.Access{Role: api.RoleReader}
	for _, line := range []string{"config export", "config diff " + s.write("services: {}\n")} { // neither a backup nor a comparison
		if status, out, messages := s.run(strings.Fields(line)...); status == 0 || status == 1 && strings.HasPrefix(line, "config diff") || out != "" || !strings.Contains(messages, "operators' token") {
			t.Errorf("%s: status %d, %s %s", line, status, out, messages)
		}
	}
	s.access = api.Access{}
	s.must("config show", "service ls", "key ls", "backend show gpu-1")
	s.refuse(
		refusal{[]string{"backend", "set", "gpu-1", "--service", "nosuch", "--dry-run"}, 2, "backend gpu-1: service: unknown service"},
		refusal{[]string{"tenant", "set", "acme", "--session-limit", "3"}, 1, "without a token, the admin API is read-only at this address: use the admin socket on the proxy's machine " +
			"(--admin unix:/run/ws/admin.sock), or set admin-token for the proxy and give it to commands with --admin-token"},
	)
}

// A cure that is shown works where the command was asked: with its --admin, and never with a secret.
func TestRepeatedFlags(t *testing.T) {
	const cure = "wsbouncer backend recycle a b; wsbouncer backend set c --header NAME=VALUE; wsbouncer check; df -h /a"
	for want, f := range map[string]adminFlags{
		cure: {token: "s3cret"},
		"wsbouncer backend recycle a b --admin unix:/a; wsbouncer backend set c --header NAME=VALUE --admin unix:/a; wsbouncer check; df -h /a": {admin: "unix:/a", token: "s3cret"},
		"wsbouncer backend recycle a b --admin 'unix:/a b' --admin-ca /ca.pem --admin-token file:/t; " +
			"wsbouncer backend set c --header NAME=VALUE --admin 'unix:/a b' --admin-ca /ca.pem --admin-token file:/t; wsbouncer check; df -h /a": {admin: "unix:/a b", ca: "/ca.pem", token: "file:/t"},
	} {
		c := cures{root: newRootCommand(), flags: f.repeated()}
		if got := c.show(cure); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// Where the address that was asked is read-only for the asker, cures name the one at which they work, and a dry run ends with the refusal of the change.
func TestReadOnlyAddress(t *testing.T) {
	s := onProxyHiding(t, admin.Access{Trusted: func(*http.Request) string { return api.RoleReader }, Socket: "/run/ws/admin.sock"})
	stats := api.Stats{Problems: []api.Problem{{Kind: "backend-slow", Hurts: api.HurtsClients, What: "backend gpu-1", Cure: "wsbouncer backend drain gpu-1"}}}
	s.playing(func() api.Stats { return stats })
	proxy := s.where
	s.where = []string{"--database", s.database}
	s.must("service add stt", "tenant add acme")
	s.where = proxy
	asked := strings.Join(proxy, " ")
	const here, found = "unix:/run/ws/admin.sock", ""
	for _, c := range []struct{ role, commands, cure, note, refusal string }{
		{
			api.RoleReader, here, "wsbouncer backend drain gpu-1 --admin " + here + "\n", "Run these commands on the proxy's machine: " + proxy[1] + " is read-only for you.\n",
			"The change itself would be refused, since " + proxy[1] + " is read-only for you: use --admin " + here + " on the proxy's machine.\n",
		},
		{api.RoleReader, found, "wsbouncer backend drain gpu-1\n", "Run these commands on the proxy's machine: ", "leave out --admin on the proxy's machine.\n"},
		{api.RoleReader, "http://127.0.0.1:9090", "wsbouncer backend drain gpu-1 " + asked + "\n", "These commands need the operator's token: ", "give the operator's token with --admin-token.\n"},
		{api.RoleOperator, here, "wsbouncer backend drain gpu-1 " + asked + "\n", "", ""},
		{"", "", "wsbouncer backend drain gpu-1 " + asked + "\n", "", ""}, // older
	} {
		s.access = api.Access{Role: c.role, Commands: c.commands}
		out := s.must("status")
		if !strings.Contains(out, c.cure) || !strings.Contains(out, c.note) || (c.note == "") == strings.Contains(out, "read-only") {
			t.Errorf("%+v:\n%s", c, out)
		}
		_, _, messages := s.run("tenant", "set", "acme", "--session-limit", "3", "--dry-run")
		if !strings.HasSuffix(messages, c.refusal) || (c.refusal == "") == strings.Contains(messages, "refused") {
			t.Errorf("%+v: a dry run ends with %q", c, messages)
		}
		if _, _, messages := s.run("tenant", "set", "acme", "--session-limit", "3", "--dry-run", "--database", s.database); strings.Contains(messages, "refused") {
			t.Errorf("%+v: the database itself takes it: %q", c, messages)
		}
	}
	t.Setenv(adminVariable, "http://127.0.0.1:9090") // pasted there, a command without --admin would be refused
	t.Setenv("STATE_DIRECTORY", "/nosuch")
	s.access = api.Access{Role: api.RoleReader}
	if out := s.must("status"); !strings.Contains(out, "wsbouncer backend drain gpu-1 --admin unix:/nosuch/admin.sock\n") {
		t.Errorf("with %s:\n%s", adminVariable, out)
	}
}
