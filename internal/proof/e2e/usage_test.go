//go:build unix

package e2e

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// good is a backend whose URL is fine; no server listens there.
const good = "ws://127.0.0.1:9"

// TestUsageErrors calls the commands wrongly: the exit status says so, and the message names the flag, its value and what to
// use instead.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	check := func(flags ...string) []string { return append([]string{"check", "--backend", good}, flags...) }
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"unknown command", []string{"serv"}, []string{`"serv"`, `did you mean "serve" or "service"?`, "wsbouncer --help"}},
		{"unknown command, far off", []string{"xyzzy"}, []string{`unknown command "xyzzy"`}},
		{"unknown flag", []string{"serve", "--backends", good}, []string{"unknown flag --backends: did you mean --backend?", "wsbouncer serve --help"}},
		{"argument", []string{"serve", good}, []string{"takes no arguments", good}},
		{"flag without its value", []string{"check", "--backend"}, []string{"flag needs an argument", "--backend"}},
		{"a service's flag without a backend", []string{"serve", "--queue", "5"}, []string{"--queue", "--backend", "'wsbouncer service set NAME --queue 5'"}},
		{"a backend's flag without one", []string{"check", "--warm", "5"}, []string{"--warm", "--backend", "'wsbouncer backend set NAME --warm 5'"}},
		{"backend and database", check("--database", "a.db"), []string{"--backend", "--database", "a.db", "'wsbouncer backend add'"}},
		{"no such file of settings", check("--settings", "none.yaml"), []string{"--settings", "none.yaml", "no such file"}},
		{"no database", []string{"serve", "--database", "mysql://a:s@b/c"}, []string{"--database", `"mysql://a:xxxxx@b/c"`, "a path"}},
		{"token on the command line", check("--admin-token", "s3cret"), []string{"--admin-token", "env:NAME", "file:/path"}},
		{"http", []string{"serve", "--backend", "http://127.0.0.1:9"}, []string{"--backend", `"http://127.0.0.1:9"`, "ws", "wss"}},
		{"no scheme", []string{"check", "--backend", "127.0.0.1:9"}, []string{"--backend", `"127.0.0.1:9"`, "invalid URL", "use a URL such as ws://"}},
		{"backend twice", check("--backend", good), []string{"--backend", good, "the same server"}},
		{"backend twice, spelt otherwise", check("--backend", "WS://127.0.0.1:9/"), []string{"--backend", "WS://127.0.0.1:9/", "the same server"}},
		{"backend twice, with the default port", check("--backend", "ws://h", "--backend", "ws://H:80"), []string{"--backend", "the same server"}},
		{"listen twice", check("--listen", "127.0.0.1:81", "--listen", "127.0.0.1:81"), []string{"--listen", `"127.0.0.1:81"`, "twice"}},
		{"admin where clients are served", check("--listen", "127.0.0.1:81", "--admin", "127.0.0.1:81"), []string{"--admin", `"127.0.0.1:81"`, "listen already uses"}},
		{"warm over cap", check("--connections", "5", "--warm", "6"), []string{"--warm", `invalid number "6": use a whole number from 0 to the cap of 5`}},
		{"warm 0 without a queue", check("--warm", "0", "--queue", "0"), []string{"--warm", "0 needs a queue and a queue-timeout", "or use 1 to 100"}},
		{"warm negative", check("--warm", "-1"), []string{"--warm", `"-1"`, ": use "}},
		{"warm no number", check("--warm", "all"), []string{"--warm", `"all"`, ": use "}},
		{"connections 0", check("--connections", "0"), []string{"--connections", `invalid number "0": use a whole number from 1 to 100000`}},
		{"connections negative", check("--connections", "-3"), []string{"--connections", `invalid number "-3": use a whole number from 1 to 100000`}},
		{"connections no number", check("--connections", "many"), []string{"--connections", `"many"`, ": use "}},
		{"bad profile", check("--profile", "vosk!"), []string{"--profile", `"vosk!"`, "one-shot, echo"}},
		{"bad size", check("--max-message", "16MB"), []string{"--max-message", `"16MB"`, ": use ", "MiB"}},
		{"negative size", check("--max-message", "-1"), []string{"--max-message", `"-1"`, ": use "}},
		{"small header", check("--max-header", "1"), []string{"--max-header", `invalid size "1": use a size from 512 to 1MiB`}},
		{"huge header", check("--max-header", "3GiB"), []string{"--max-header", `invalid size "3GiB": use a size from 512 to 1MiB`}},
		{"duration without unit", check("--drain-timeout", "5"), []string{"--drain-timeout", `"5"`, ": use "}},
		{"negative duration", check("--idle-timeout", "-1s"), []string{"--idle-timeout", `invalid duration "-1s": use a duration from 0s`}},
		{"duration 0", check("--dial-timeout", "0"), []string{"--dial-timeout", `invalid duration "0": use a duration from 1ms`}},
		{"bad path", check("--path", "v1"), []string{"--path", `"v1"`, "begin it with /"}},
		{"bad subprotocol", check("--subprotocol", "a b"), []string{"--subprotocol", `"a b"`, "use letters, digits"}},
		{"loops", check("--loops", "-1"), []string{"--loops", `invalid number "-1"`}},
		{"address without port", check("--listen", "127.0.0.1"), []string{"--listen", `"127.0.0.1"`, "host:port"}},
		{"admin without port", check("--admin", "localhost"), []string{"--admin", `"localhost"`, "host:port"}},
		{"port too large", check("--listen", "127.0.0.1:70000"), []string{"--listen", `"127.0.0.1:70000"`, "0 to 65535"}},
		{"bad log level", []string{"serve", "--backend", good, "--log-level", "loud"}, []string{"--log-level", `"loud"`, "debug, info, warn, error"}},
		{"bad log format", check("--log-format", "xml"), []string{"--log-format", `"xml"`, "text, json"}},
		{"bench without URL", []string{"bench"}, []string{"URL", "ws://"}},
		{"bench with a bad number", []string{"bench", good, "--rate", "fast"}, []string{"--rate", `"fast"`, ": use "}},
		{"sim with a bad protocol", []string{"sim", "--protocol", "smtp"}, []string{"protocol", `"smtp"`, "echo"}},
		{"version with an argument", []string{"version", "1"}, []string{"takes no arguments"}},
		{"queue negative", check("--queue", "-1"), []string{"--queue", `invalid number "-1": use a whole number from 0 to 1000000`}},
		{"queue no number", check("--queue", "long"), []string{"--queue", `"long"`, ": use "}},
		{"queue-timeout negative", check("--queue-timeout", "-1s"), []string{"--queue-timeout", `invalid duration "-1s": use a duration from 0s`}},
		{"bad balance", check("--balance", "fair"), []string{"--balance", `"fair"`, "least-loaded, round-robin, random-two, hash:client"}},
		{"bad key of a hash", check("--balance", "hash:cookie:id"), []string{"--balance", `"hash:cookie:id"`, "hash:client, hash:header:NAME, hash:query:NAME"}},
		{"removed field", check("--hash-by", "client"), []string{"--hash-by", "no longer exists", "use balance"}},
		{"removed setting", []string{"check", "--drain-spread", "5s"}, []string{"--drain-spread", "no longer exists", "drain-timeout"}},
		{"bad probe", check("--probe", "ftp://127.0.0.1/"), []string{"--probe", `"ftp://127.0.0.1/"`, "upgrade, a path such as /health"}},
		{"probe-interval too short", check("--probe-interval", "1ms"), []string{"--probe-interval", `invalid duration "1ms": use a duration from 10ms`}},
		{"ping-timeout 0", check("--ping-timeout", "0"), []string{"--ping-timeout", `invalid duration "0": use a duration from 1ms`}},
		{"absurd duration", check("--connection-max-age", "9000h"), []string{"--connection-max-age", `invalid duration "9000h": use a duration from 0s to 720h`}},
		{"no failures", check("--circuit-failures", "0"), []string{"--circuit-failures", `invalid number "0": use a whole number from 1`}},
		{"backend's own cap", check("--backend", "ws://h,connections=0"), []string{"--backend", `"ws://h,connections=0"`, `invalid number "0": use a whole number from 1 to 100000`}},
		{"backend's own weight", check("--backend", "ws://h,weight=-1"), []string{"--backend", `invalid number "-1": use a number from 0 to 1000`}},
		{"backend's own state", check("--backend", "ws://h,state=off"), []string{"--backend", `"off"`, "enabled, draining, disabled"}},
		{"backend's misspelt setting", check("--backend", "ws://h/x,conections=1"), []string{"--backend", `"conections"`, "connections, connections-max, warm"}},
		{"backend twice, with other settings", check("--backend", good+",warm=1"), []string{"--backend", good, "the same server"}},
		{"help for an unknown command", []string{"help", "bogus"}, []string{`unknown command "bogus"`}},
		{"help for a command that is nearly one", []string{"help", "serv"}, []string{`"serv"`, `did you mean "serve" or "service"?`}},
		{"help for an unknown shell's completion", []string{"help", "completion", "tcsh2"}, []string{`unknown command "tcsh2"`}},
		{"help for an argument", []string{"help", "serve", "bogus"}, []string{"takes no arguments", `"bogus"`}},
		{"completion for an unknown shell", []string{"completion", "tcsh2"}, []string{`unknown command "tcsh2"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runCommand(t, c.args...)
			if r.status != 2 {
				t.Errorf("exit status %d, want 2", r.status)
			}
			if r.stdout != "" {
				t.Errorf("on standard output: %q", r.stdout)
			}
			if !strings.HasPrefix(r.stderr, "Error: ") || !containsAll(r.stderr, c.words...) {
				t.Errorf("%q does not say %q", r.stderr, c.words)
			}
		})
	}
}

// TestAllErrorsAtOnce has check name every error, not only the first, and serve as well.
func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"check", "serve"} {
		r := runCommand(t, command, "--backend", "http://a", "--backend", good, "--backend", good, "--connections", "0", "--profile", "none",
			"--listen", "nowhere", "--admin", "nowhere:either:", "--path", "x", "--drain-timeout", "-1s", "--max-header", "1",
			"--log-level", "loud", "--log-format", "xml")
		want := []string{
			`--backend: invalid URL "http://a"`, `--connections: invalid number "0"`, `--profile: unknown profile "none"`, `--listen: invalid address "nowhere"`,
			`--admin: invalid address "nowhere:either:"`, `--path: invalid path "x"`, `--drain-timeout: invalid duration "-1s"`, `--max-header: invalid size "1"`, `--log-level: unknown log level "loud"`,
			`--log-format: unknown log format "xml"`,
		}
		if r.status != 2 || !containsAll(r.stderr, want...) {
			t.Errorf("%s: exit status %d, and not all of %q in:\n%s", command, r.status, want, r.stderr)
		}
	}
}

// TestPortInUse has serve find its addresses taken: that is not a usage error.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for flag, flags := range map[string][]string{
		"--listen": {"--listen", taken},
		"--admin":  {"--listen", "127.0.0.1:0", "--admin", taken},
	} {
		r := runCommand(t, append([]string{"serve", "--backend", good}, flags...)...)
		if r.status != 1 || !containsAll(r.stderr, "Error: "+flag, taken, "address already in use") {
			t.Errorf("%s: exit status %d and %q", flag, r.status, r.stderr)
		}
	}
}

// TestCheck validates flags that are fine.
func TestCheck(t *testing.T) {
	t.Parallel()
	r := runCommand(t, "check", "--backend", good, "--backend", "ws://127.0.0.1:10/stt?model=a", "--connections", "32", "--warm", "8",
		"--profile", "echo", "--path", "/v1/stt", "--listen", "127.0.0.1:8080", "--listen", "[::1]:8080", "--admin", "127.0.0.1:9090",
		"--subprotocol", "audio.v1", "--max-message", "1MiB", "--log-level", "debug", "--log-format", "json",
		"--balance", "hash:header:X-Device", "--queue", "7", "--queue-timeout", "2s", "--probe", "/health")
	if r.status != 0 || r.stderr != "" {
		t.Errorf("exit status %d, %q", r.status, r.stderr)
	}
	for _, want := range []string{
		`listen +127\.0\.0\.1:8080, path /v1/stt`, `listen +\[::1\]:8080`, `admin +127\.0\.0\.1:9090`, `profile +echo: `,
		`backend +ws://127\.0\.0\.1:9, at most 32 connections, 8 kept warm`, `backend +ws://127\.0\.0\.1:10/stt\?model=a, `,
		`balance +hash:header:X-Device$`, `queue +at most 7 clients, for 2s each$`, `subprotocol +audio\.v1`, `sessions +at most 64 at once`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(r.stdout) {
			t.Errorf("no line like %q in:\n%s", want, r.stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := runCommand(t, "version")
	if r.status != 0 || r.stderr != "" || !regexp.MustCompile(`^wsbouncer \S+ \(go\S+, \w+/\w+\)\n$`).MatchString(r.stdout) {
		t.Errorf("exit status %d, %q, %q", r.status, r.stdout, r.stderr)
	}
}

var listedCommand = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)

// TestHelp asks every command for its help.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := runCommand(t)
	if help := runCommand(t, "--help"); help != root {
		t.Errorf("without a command:\n%s\nwith --help:\n%s", root.stdout, help.stdout)
	}
	_, list, _ := strings.Cut(root.stdout, "\nRun:\n")
	list, _, _ = strings.Cut(list, "\n\nFlags:")
	commands := []string{""}
	for _, m := range listedCommand.FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	if !containsAll(list, "serve", "check", "sim", "bench", "demo", "version", "completion", "help") {
		t.Errorf("commands: %q", commands)
	}
	for _, command := range commands {
		args := append(strings.Fields(command), "--help")
		r := runCommand(t, args...)
		if again := runCommand(t, append([]string{"help"}, strings.Fields(command)...)...); again != r {
			t.Errorf("help %s: exit status %d, %q, %q; with --help: %q", command, again.status, again.stdout, again.stderr, r.stdout)
		}
		if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "Usage:") {
			t.Errorf("%q: exit status %d, %q", args, r.status, r.stderr)
		}
		if !strings.Contains(r.stdout, "Examples:") && command != "help" {
			t.Errorf("%q shows no example", args)
		}
	}
}

// TestCompletion makes completion scripts, and asks for completions as they do.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := runCommand(t, "completion", shell)
		if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "completion") || !strings.Contains(r.stdout, "wsbouncer") {
			t.Errorf("%s: exit status %d, %q, %.100q", shell, r.status, r.stderr, r.stdout)
		}
	}
	r := runCommand(t, "__complete", "serve", "--back")
	if r.status != 0 || !strings.Contains(r.stdout, "--backend") {
		t.Errorf("exit status %d, %q", r.status, r.stdout)
	}
}
