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
	"internal/frame":         {},
	"internal/pool":          {},
	"internal/spelling":      {},
	"internal/strictyaml":    {"internal/spelling"},
	"internal/profile":       {"internal/frame", "internal/spelling", "internal/strictyaml"},
	"internal/replay":        {"internal/frame", "internal/profile"},
	"internal/cgroup":        {},
	"internal/speaker":       {"internal/frame", "internal/handshake", "internal/profile", "internal/wav"},
	"internal/machine":       {"internal/cgroup", "internal/figures"},
	"internal/mistake":       {},
	"internal/supervisor":    {},
	"internal/takeover":      {},
	"internal/meter":         {},
	"internal/printable":     {},
	"internal/secret":        {},
	"internal/accesslog":     {"internal/config/fileowner", "internal/mistake", "internal/origin"},
	"internal/origin":        {},
	"internal/limits":        {"internal/value", "internal/spelling"},
	"internal/fleet":         {},
	"internal/fleet/change":  {"internal/fleet", "internal/printable"},
	"internal/fleet/explore": {"internal/fleet"},
	"internal/fleet/memory":  {"internal/fleet", "internal/fleet/change"},
	"internal/acme":          {},
	"internal/acme/acmetest": {"internal/discovery/dnstest", "internal/secure/securetest", "internal/wstest"},
	"internal/identity":      {"internal/limits"},
	"internal/wav":           {},
	"internal/sim/speech":    {},

	// Who clients are.
	"internal/auth":        {"internal/identity", "internal/limits"},
	"internal/auth/apikey": {"internal/auth", "internal/identity", "internal/limits"},
	"internal/auth/token":  {"internal/auth", "internal/identity", "internal/mistake"},

	"internal/auth/certificate": {"internal/auth", "internal/identity"},
	"internal/auth/external":    {"internal/auth", "internal/identity"},

	"internal/auth/token/tokentest": {},

	// Connections, with TLS or without.
	"internal/tlsrecord":         {},
	"internal/secure":            {"internal/tlsrecord"},
	"internal/secure/securetest": {},
	"internal/loop":              {"internal/cgroup", "internal/secure", "internal/tlsrecord"},
	"internal/dialfrom":          {"internal/machine"},
	"internal/handshake":         {"internal/dialfrom", "internal/origin", "internal/secret", "internal/secure"},

	// The data plane: it never sees the admin API, a database or metrics.
	"internal/backend/health": {"internal/pool"},
	"internal/backend":        {"internal/backend/health", "internal/dialfrom", "internal/frame", "internal/handshake", "internal/loop", "internal/machine", "internal/meter", "internal/mistake", "internal/pool", "internal/profile", "internal/secret", "internal/speaker"},
	"internal/session":        {"internal/auth", "internal/backend", "internal/frame", "internal/handshake", "internal/identity", "internal/limits", "internal/loop", "internal/machine", "internal/meter", "internal/mistake", "internal/origin", "internal/pool", "internal/printable", "internal/profile", "internal/replay", "internal/secure"},

	// The contract of the admin API, and who serves it.
	"internal/api":          {},
	"internal/admin":        {"internal/api", "internal/spelling"},
	"internal/admin/client": {"internal/api"},
	"internal/metrics":      {"internal/api", "internal/meter", "internal/pool"},
	"internal/tracing":      {"internal/identity", "internal/origin", "internal/session"},
	"internal/dashboard":    {},
	"internal/live":         {"internal/api", "internal/meter", "internal/mistake", "internal/origin"},

	// What commands show of a running proxy.
	"internal/figures":   {},
	"internal/diagnosis": {"internal/api", "internal/figures"},
	"internal/peers":     {"internal/admin/client", "internal/api", "internal/fleet", "internal/secret"},
	"internal/top":       {"internal/admin/client", "internal/api", "internal/diagnosis", "internal/figures", "internal/printable"},

	// The desired state, and where it is kept. Stores know nothing of one another.
	"internal/config":                 {"internal/secret", "internal/value", "internal/identity", "internal/limits", "internal/profile", "internal/spelling"},
	"internal/value":                  {"internal/spelling"},
	"internal/config/tables":          {"internal/config"},
	"internal/config/fileowner":       {},
	"internal/config/filelock":        {"internal/config/fileowner"},
	"internal/config/file":            {"internal/config", "internal/config/filelock", "internal/config/fileowner", "internal/strictyaml"},
	"internal/config/sqlite":          {"internal/config", "internal/config/filelock", "internal/config/fileowner", "internal/config/tables"},
	"internal/config/postgres":        {"internal/config", "internal/config/tables", "internal/pgconnect"},
	"internal/config/postgres/pgtest": {},
	"internal/config/remote":          {"internal/admin/client", "internal/config", "internal/spelling"},
	"internal/config/storetest":       {"internal/config"},
	"internal/config/memory":          {"internal/config"},
	"internal/config/follow":          {"internal/config", "internal/config/file"},
	"internal/config/stores":          {"internal/config", "internal/config/file", "internal/config/memory", "internal/config/postgres", "internal/config/sqlite"},
	"internal/state":                  {},
	"internal/pgconnect":              {},
	"internal/fleet/postgres":         {"internal/fleet", "internal/fleet/change", "internal/pgconnect"},
	"internal/fleet/sqlite":           {"internal/config/fileowner", "internal/fleet", "internal/fleet/change", "internal/machine"},
	"internal/fleet/storetest":        {"internal/fleet"},
	"internal/fleet/explore/cmd":      {"internal/fleet/explore", "internal/fleet/simulate"},
	"internal/fleet/simulate":         {"internal/fleet", "internal/fleet/change"},
	"internal/fleet/agent":            {"internal/fleet", "internal/secret"},
	"internal/fleet/presence":         {"internal/config/fileowner", "internal/fleet", "internal/machine"},

	// For tests, demo and benchmarks.
	"internal/proxyprocess": {"internal/api"},
	"internal/devtools":     {},
	"internal/wstest":       {"internal/frame", "internal/handshake", "internal/secure", "internal/secure/securetest"},
	"internal/sim":          {"internal/frame", "internal/handshake", "internal/loop", "internal/secure", "internal/spelling"},
	"internal/hunt":         {"internal/frame", "internal/sim", "internal/spelling"},
	"internal/stage":        {"internal/app", "internal/sim"},
	"internal/command":      {},
	"internal/hunt/cmd":     {"internal/app", "internal/command", "internal/hunt", "internal/profile", "internal/sim", "internal/stage"},
	"internal/chaos":        {"internal/frame", "internal/handshake", "internal/hunt", "internal/load", "internal/proxyprocess", "internal/sim", "internal/spelling", "internal/api"},
	"internal/chaos/cmd":    {"internal/chaos", "internal/command"},

	"internal/failoverproof":     {"internal/admin/client", "internal/api", "internal/app", "internal/frame", "internal/handshake", "internal/hunt", "internal/profile", "internal/secure", "internal/sim", "internal/speaker", "internal/spelling", "internal/stage"},
	"internal/failoverproof/cmd": {"internal/command", "internal/failoverproof", "internal/profile"},

	"internal/fleetproof":     {"internal/config/postgres/pgtest", "internal/fleet", "internal/frame", "internal/hunt", "internal/proxyprocess", "internal/sim", "internal/spelling"},
	"internal/fleetproof/cmd": {"internal/command", "internal/fleetproof"},

	"internal/upgradeproof":     {"internal/config/postgres/pgtest", "internal/failoverproof", "internal/handshake", "internal/proxyprocess", "internal/sim"},
	"internal/upgradeproof/cmd": {"internal/upgradeproof"},

	"internal/load":        {"internal/frame", "internal/handshake", "internal/loop", "internal/machine", "internal/secure", "internal/spelling", "internal/wav"},
	"internal/load/report": {"internal/frame", "internal/load"},

	// What makes of the desired state what runs.
	"internal/discovery":         {"internal/mistake"},
	"internal/discovery/dnstest": {},
	"internal/services": {
		"internal/fleet",
		"internal/backend", "internal/backend/health", "internal/config", "internal/dialfrom", "internal/discovery", "internal/handshake", "internal/loop", "internal/machine", "internal/meter", "internal/mistake", "internal/pool", "internal/profile", "internal/secret", "internal/secure",
		"internal/session", "internal/api", "internal/identity", "internal/limits", "internal/auth", "internal/auth/apikey", "internal/auth/certificate", "internal/auth/external", "internal/auth/token", "internal/speaker", "internal/wav",
	},

	// The settings of the process: they say where the configuration is, and nothing of what is in it.
	"internal/settings": {
		"internal/acme", "internal/config", "internal/config/stores", "internal/secret", "internal/value", "internal/dialfrom", "internal/limits", "internal/origin", "internal/secure", "internal/spelling", "internal/state", "internal/strictyaml",
	},

	// What joins the parts.
	"internal/app": {
		"internal/accesslog", "internal/acme", "internal/admin", "internal/auth", "internal/backend", "internal/config", "internal/config/file", "internal/config/follow", "internal/config/memory",
		"internal/config/remote", "internal/config/stores", "internal/dashboard", "internal/dialfrom", "internal/discovery", "internal/frame", "internal/limits", "internal/live", "internal/loop", "internal/machine", "internal/meter", "internal/metrics", "internal/mistake", "internal/fleet", "internal/fleet/agent", "internal/fleet/postgres", "internal/fleet/presence", "internal/fleet/sqlite", "internal/pgconnect", "internal/origin", "internal/peers", "internal/replay",
		"internal/pool", "internal/printable", "internal/profile", "internal/secret", "internal/secure", "internal/services", "internal/session", "internal/settings", "internal/spelling", "internal/state", "internal/api", "internal/takeover", "internal/tracing",
	},
	"internal/verify": {"internal/frame", "internal/handshake", "internal/profile", "internal/speaker"},
	"internal/demo":   {"internal/app", "internal/sim", "internal/sim/speech", "internal/stage", "internal/api", "internal/wav"},
	"internal/cli": {
		"internal/admin/client", "internal/api", "internal/app", "internal/auth/apikey", "internal/auth/token", "internal/config", "internal/config/file", "internal/config/fileowner", "internal/config/remote", "internal/config/stores",
		"internal/secret", "internal/value", "internal/demo", "internal/diagnosis", "internal/dialfrom", "internal/fleet", "internal/figures", "internal/identity", "internal/limits", "internal/load", "internal/load/report", "internal/machine", "internal/pool", "internal/printable", "internal/profile",
		"internal/secure", "internal/settings", "internal/sim", "internal/spelling", "internal/state", "internal/supervisor", "internal/takeover", "internal/top", "internal/wav",
		"internal/handshake", "internal/speaker", "internal/verify",
	},
	"cmd/wsbouncer": {"internal/cli"},

	// End-to-end tests: they use the binary.
	"internal/e2e": {},
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
