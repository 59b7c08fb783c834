package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wsbouncer/wsbouncer/"

// mayImport says which of our packages each package may import, tests aside. A package that is missing here has not been
// thought about: add it, and to docs/architecture.md.
var mayImport = map[string][]string{
	// No I/O, or nothing but I/O: profile speaks of frame's opcodes and close codes.
	"internal/wire/frame":        {},
	"internal/servers/pool":      {},
	"internal/ground/spelling":   {},
	"internal/ground/strictyaml": {"internal/ground/spelling"},
	"internal/protocol/profile":  {"internal/wire/frame", "internal/ground/spelling", "internal/ground/strictyaml"},
	"internal/protocol/replay":   {"internal/wire/frame", "internal/protocol/profile"},
	"internal/ground/cgroup":     {},
	"internal/protocol/speaker":  {"internal/wire/frame", "internal/wire/handshake", "internal/protocol/profile", "internal/protocol/wav"},
	"internal/ground/machine":    {"internal/ground/cgroup", "internal/ground/figures"},
	"internal/ground/mistake":    {},
	"internal/app/supervisor":    {},
	"internal/fleet/takeover":    {},
	"internal/ground/meter":      {},
	"internal/ground/printable":  {},
	"internal/ground/secret":     {},
	"internal/operate/accesslog": {"internal/ground/fileowner", "internal/ground/mistake", "internal/wire/origin"},
	"internal/wire/origin":       {},
	"internal/access/limits":     {"internal/ground/value", "internal/ground/spelling"},
	"internal/fleet":             {},
	"internal/fleet/change":      {"internal/fleet", "internal/ground/printable"},
	"internal/proof/explore":     {"internal/fleet"},
	"internal/fleet/memory":      {"internal/fleet", "internal/fleet/change"},
	"internal/wire/acme":         {},
	"internal/testkit/acmetest":  {"internal/testkit/dnstest", "internal/testkit/securetest", "internal/testkit/wstest"},
	"internal/access/identity":   {"internal/access/limits"},
	"internal/protocol/wav":      {},
	"internal/lab/sim/speech":    {},

	// Who clients are.
	"internal/access/auth":        {"internal/access/identity", "internal/access/limits"},
	"internal/access/auth/apikey": {"internal/access/auth", "internal/access/identity", "internal/access/limits"},
	"internal/access/auth/token":  {"internal/access/auth", "internal/access/identity", "internal/ground/mistake"},

	"internal/access/auth/certificate": {"internal/access/auth", "internal/access/identity"},
	"internal/access/auth/external":    {"internal/access/auth", "internal/access/identity"},

	"internal/testkit/tokentest": {},

	// Connections, with TLS or without.
	"internal/wire/tlsrecord":     {},
	"internal/wire/secure":        {"internal/wire/tlsrecord"},
	"internal/testkit/securetest": {},
	"internal/wire/loop":          {"internal/ground/cgroup", "internal/wire/secure", "internal/wire/tlsrecord"},
	"internal/wire/dialfrom":      {"internal/ground/machine"},
	"internal/wire/handshake":     {"internal/wire/dialfrom", "internal/wire/origin", "internal/ground/secret", "internal/wire/secure"},

	// The data plane: it never sees the admin API, a database or metrics.
	"internal/servers/backend/health": {"internal/servers/pool"},
	"internal/servers/backend":        {"internal/servers/backend/health", "internal/wire/dialfrom", "internal/wire/frame", "internal/wire/handshake", "internal/wire/loop", "internal/ground/machine", "internal/ground/meter", "internal/ground/mistake", "internal/servers/pool", "internal/protocol/profile", "internal/ground/secret", "internal/protocol/speaker"},
	"internal/session":                {"internal/access/auth", "internal/servers/backend", "internal/wire/frame", "internal/wire/handshake", "internal/access/identity", "internal/access/limits", "internal/wire/loop", "internal/ground/machine", "internal/ground/meter", "internal/ground/mistake", "internal/wire/origin", "internal/servers/pool", "internal/ground/printable", "internal/protocol/profile", "internal/protocol/replay", "internal/wire/secure"},

	// The contract of the admin API, and who serves it.
	"internal/operate/api":          {},
	"internal/operate/admin":        {"internal/operate/api", "internal/ground/spelling"},
	"internal/operate/admin/client": {"internal/operate/api"},
	"internal/operate/metrics":      {"internal/operate/api", "internal/ground/meter", "internal/servers/pool"},
	"internal/operate/tracing":      {"internal/access/identity", "internal/wire/origin", "internal/session"},
	"internal/operate/dashboard":    {},
	"internal/operate/live":         {"internal/operate/api", "internal/ground/meter", "internal/ground/mistake", "internal/wire/origin"},

	// What commands show of a running proxy.
	"internal/ground/figures":    {},
	"internal/operate/diagnosis": {"internal/operate/api", "internal/ground/figures"},
	"internal/fleet/peers":       {"internal/operate/admin/client", "internal/operate/api", "internal/fleet", "internal/ground/secret"},
	"internal/operate/top":       {"internal/operate/admin/client", "internal/operate/api", "internal/operate/diagnosis", "internal/ground/figures", "internal/ground/printable"},

	// The desired state, and where it is kept. Stores know nothing of one another.
	"internal/config":             {"internal/ground/secret", "internal/ground/value", "internal/access/identity", "internal/access/limits", "internal/protocol/profile", "internal/ground/spelling"},
	"internal/ground/value":       {"internal/ground/spelling"},
	"internal/config/tables":      {"internal/config"},
	"internal/ground/fileowner":   {},
	"internal/config/filelock":    {"internal/ground/fileowner"},
	"internal/config/file":        {"internal/config", "internal/config/filelock", "internal/ground/fileowner", "internal/ground/strictyaml"},
	"internal/config/sqlite":      {"internal/config", "internal/config/filelock", "internal/ground/fileowner", "internal/config/tables"},
	"internal/config/postgres":    {"internal/config", "internal/config/tables", "internal/ground/pgconnect"},
	"internal/testkit/pgtest":     {},
	"internal/config/remote":      {"internal/operate/admin/client", "internal/config", "internal/ground/spelling"},
	"internal/testkit/configtest": {"internal/config"},
	"internal/config/memory":      {"internal/config"},
	"internal/config/follow":      {"internal/config", "internal/config/file"},
	"internal/config/stores":      {"internal/config", "internal/config/file", "internal/config/memory", "internal/config/postgres", "internal/config/sqlite"},
	"internal/config/state":       {},
	"internal/ground/pgconnect":   {},
	"internal/fleet/postgres":     {"internal/fleet", "internal/fleet/change", "internal/ground/pgconnect"},
	"internal/fleet/sqlite":       {"internal/ground/fileowner", "internal/fleet", "internal/fleet/change", "internal/ground/machine"},
	"internal/fleet/configtest":   {"internal/fleet"},
	"internal/proof/explore/cmd":  {"internal/proof/explore", "internal/proof/simulate"},
	"internal/proof/simulate":     {"internal/fleet", "internal/fleet/change"},
	"internal/fleet/agent":        {"internal/fleet", "internal/ground/secret"},
	"internal/fleet/presence":     {"internal/ground/fileowner", "internal/fleet", "internal/ground/machine"},

	// For tests, demo and benchmarks.
	"internal/proof/proxyprocess": {"internal/operate/api"},
	"internal/testkit/devtools":   {},
	"internal/testkit/wstest":     {"internal/wire/frame", "internal/wire/handshake", "internal/wire/secure", "internal/testkit/securetest"},
	"internal/lab/sim":            {"internal/wire/frame", "internal/wire/handshake", "internal/wire/loop", "internal/wire/secure", "internal/ground/spelling"},
	"internal/proof/hunt":         {"internal/wire/frame", "internal/lab/sim", "internal/ground/spelling"},
	"internal/lab/stage":          {"internal/app", "internal/lab/sim"},
	"internal/proof/command":      {},
	"internal/proof/hunt/cmd":     {"internal/app", "internal/proof/command", "internal/proof/hunt", "internal/protocol/profile", "internal/lab/sim", "internal/lab/stage"},
	"internal/proof/chaos":        {"internal/wire/frame", "internal/wire/handshake", "internal/proof/hunt", "internal/lab/load", "internal/proof/proxyprocess", "internal/lab/sim", "internal/ground/spelling", "internal/operate/api"},
	"internal/proof/chaos/cmd":    {"internal/proof/chaos", "internal/proof/command"},

	"internal/proof/failoverproof":     {"internal/operate/admin/client", "internal/operate/api", "internal/app", "internal/wire/frame", "internal/wire/handshake", "internal/proof/hunt", "internal/protocol/profile", "internal/wire/secure", "internal/lab/sim", "internal/protocol/speaker", "internal/ground/spelling", "internal/lab/stage"},
	"internal/proof/failoverproof/cmd": {"internal/proof/command", "internal/proof/failoverproof", "internal/protocol/profile"},

	"internal/proof/fleetproof":     {"internal/testkit/pgtest", "internal/fleet", "internal/wire/frame", "internal/proof/hunt", "internal/proof/proxyprocess", "internal/lab/sim", "internal/ground/spelling"},
	"internal/proof/fleetproof/cmd": {"internal/proof/command", "internal/proof/fleetproof"},

	"internal/proof/upgradeproof":     {"internal/testkit/pgtest", "internal/proof/failoverproof", "internal/wire/handshake", "internal/proof/proxyprocess", "internal/lab/sim"},
	"internal/proof/upgradeproof/cmd": {"internal/proof/upgradeproof"},

	"internal/lab/load":        {"internal/wire/frame", "internal/wire/handshake", "internal/wire/loop", "internal/ground/machine", "internal/wire/secure", "internal/ground/spelling", "internal/protocol/wav"},
	"internal/lab/load/report": {"internal/wire/frame", "internal/lab/load"},

	// What makes of the desired state what runs.
	"internal/servers/discovery": {"internal/ground/mistake"},
	"internal/testkit/dnstest":   {},
	"internal/app/services": {
		"internal/fleet",
		"internal/servers/backend", "internal/servers/backend/health", "internal/config", "internal/wire/dialfrom", "internal/servers/discovery", "internal/wire/handshake", "internal/wire/loop", "internal/ground/machine", "internal/ground/meter", "internal/ground/mistake", "internal/servers/pool", "internal/protocol/profile", "internal/ground/secret", "internal/wire/secure",
		"internal/session", "internal/operate/api", "internal/access/identity", "internal/access/limits", "internal/access/auth", "internal/access/auth/apikey", "internal/access/auth/certificate", "internal/access/auth/external", "internal/access/auth/token", "internal/protocol/speaker", "internal/protocol/wav",
	},

	// The settings of the process: they say where the configuration is, and nothing of what is in it.
	"internal/config/settings": {
		"internal/wire/acme", "internal/config", "internal/config/stores", "internal/ground/secret", "internal/ground/value", "internal/wire/dialfrom", "internal/access/limits", "internal/wire/origin", "internal/wire/secure", "internal/ground/spelling", "internal/config/state", "internal/ground/strictyaml",
	},

	// What joins the parts.
	"internal/app": {
		"internal/operate/accesslog", "internal/wire/acme", "internal/operate/admin", "internal/access/auth", "internal/servers/backend", "internal/config", "internal/config/file", "internal/config/follow", "internal/config/memory",
		"internal/config/remote", "internal/config/stores", "internal/operate/dashboard", "internal/wire/dialfrom", "internal/servers/discovery", "internal/wire/frame", "internal/access/limits", "internal/operate/live", "internal/wire/loop", "internal/ground/machine", "internal/ground/meter", "internal/operate/metrics", "internal/ground/mistake", "internal/fleet", "internal/fleet/agent", "internal/fleet/postgres", "internal/fleet/presence", "internal/fleet/sqlite", "internal/ground/pgconnect", "internal/wire/origin", "internal/fleet/peers", "internal/protocol/replay",
		"internal/servers/pool", "internal/ground/printable", "internal/protocol/profile", "internal/ground/secret", "internal/wire/secure", "internal/app/services", "internal/session", "internal/config/settings", "internal/ground/spelling", "internal/config/state", "internal/operate/api", "internal/fleet/takeover", "internal/operate/tracing",
	},
	"internal/lab/verify": {"internal/wire/frame", "internal/wire/handshake", "internal/protocol/profile", "internal/protocol/speaker"},
	"internal/lab/demo":   {"internal/app", "internal/lab/sim", "internal/lab/sim/speech", "internal/lab/stage", "internal/operate/api", "internal/protocol/wav"},
	"internal/cli": {
		"internal/operate/admin/client", "internal/operate/api", "internal/app", "internal/access/auth/apikey", "internal/access/auth/token", "internal/config", "internal/config/file", "internal/ground/fileowner", "internal/config/remote", "internal/config/stores",
		"internal/ground/secret", "internal/ground/value", "internal/lab/demo", "internal/operate/diagnosis", "internal/wire/dialfrom", "internal/fleet", "internal/ground/figures", "internal/access/identity", "internal/access/limits", "internal/lab/load", "internal/lab/load/report", "internal/ground/machine", "internal/servers/pool", "internal/ground/printable", "internal/protocol/profile",
		"internal/wire/secure", "internal/config/settings", "internal/lab/sim", "internal/ground/spelling", "internal/config/state", "internal/app/supervisor", "internal/fleet/takeover", "internal/operate/top", "internal/protocol/wav",
		"internal/wire/handshake", "internal/protocol/speaker", "internal/lab/verify",
	},
	"cmd/wsbouncer": {"internal/cli"},

	// End-to-end tests: they use the binary.
	"internal/proof/e2e": {},
}

// TestImports holds every package against mayImport.
func TestImports(t *testing.T) {
	root := ".."
	seen := make(map[string]bool)
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(relative)
			here := path.Dir(name)
			allowed, ok := mayImport[here]
			if !ok {
				t.Errorf("%s: package %s is not in the list of who may import whom", name, here)
			}
			seen[here] = true
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
				if ours && !slices.Contains(allowed, imported) {
					t.Errorf("%s imports %s, which %s may not", name, imported, here)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("the list of who may import whom has %s, which has no files", name)
		}
	}
}

// TestNames keeps out the package names that say nothing.
func TestNames(t *testing.T) {
	for name := range mayImport {
		for _, bad := range []string{"util", "utils", "common", "helpers", "misc", "base"} {
			if path.Base(name) == bad {
				t.Errorf("package %s is named after nothing", name)
			}
		}
	}
}
