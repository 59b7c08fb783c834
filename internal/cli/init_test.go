package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// init names the profile of a server, and writes files that check takes. It overwrites nothing.
func TestInit(t *testing.T) {
	alone(t)
	server, err := sim.Start(sim.Options{Protocol: sim.RealtimeSTT, Sessions: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	directory := t.TempDir()
	t.Chdir(directory)
	if err := os.Unsetenv(databaseVariable); err != nil { // which even an empty one would set
		t.Fatal(err)
	}
	args := []string{"init", server.URL(), "--profile", "realtimestt", "--header", "X-Key=env:MY_KEY", "--listen", "127.0.0.1:8081"}
	t.Setenv("MY_KEY", "s3cret")
	status, out, messages := command(args...)
	for _, want := range []string{"Profile: realtimestt: a session of 1s came to its end in order", "Connections: auto, at most 7", "\n  wsbouncer serve --settings wsbouncer.yaml\n", "\nState directory: " + filepath.Join(directory, "state") + "\n"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Fatalf("status %d, %s%s\nwant %s", status, out, messages, want)
		}
	}
	if strings.Contains(out+messages, "s3cret") {
		t.Errorf("it shows a secret: %s%s", out, messages)
	}
	for name, want := range map[string][]string{
		"services.yaml":  {"profile: realtimestt", "connections: auto", "connections-max: 7", "X-Key: env:MY_KEY"},
		"wsbouncer.yaml": {`listen: "127.0.0.1:8081"`, `database: "` + filepath.Join(directory, "services.yaml"), `state-directory: "` + filepath.Join(directory, "state") + `"`, `secret-env: [WSBOUNCER_SECRET_*, "MY_KEY"]`},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q:\n%s", name, part, text)
			}
		}
	}
	if status, out, messages := command("check", "--settings", "wsbouncer.yaml"); status != 0 || !strings.Contains(out, "speech: every path, profile realtimestt") {
		t.Errorf("check: status %d, %s%s", status, out, messages)
	}
	if status, _, messages := command(args...); status != 1 || !strings.Contains(messages, "services.yaml already exists") {
		t.Errorf("again: status %d, %s", status, messages)
	}
	if err := os.Remove("services.yaml"); err != nil {
		t.Fatal(err)
	}
	if status, _, messages := command(args...); status != 1 || !strings.Contains(messages, "wsbouncer.yaml already exists") {
		t.Errorf("with the settings only: status %d, %s", status, messages)
	}
}

// Without a profile that fits, init takes the one that is right for every server. Without a server, or with a profile that does not fit, it writes nothing.
func TestInitWithoutAFit(t *testing.T) {
	alone(t)
	server, err := sim.Start(sim.Options{Protocol: sim.Echo})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := server.URL()
	t.Chdir(t.TempDir())
	status, out, messages := command("init", url, "--profile", "one-shot", "--connections", "3")
	if status != 0 || !strings.Contains(out, "Profile: one-shot: ") || !strings.Contains(out, "Connections: 3: the server does not publish its capacity") {
		t.Errorf("status %d, %s%s", status, out, messages)
	}
	t.Chdir(t.TempDir())
	refused := func(args []string, wantStatus int, want string) {
		t.Helper()
		status, out, messages := command(append([]string{"init"}, args...)...)
		if files, err := os.ReadDir("."); status != wantStatus || out != "" || !strings.Contains(messages, want) || len(files) != 0 || err != nil {
			t.Errorf("status %d, %s%s, %v, %v; want status %d, %s", status, out, messages, files, err, wantStatus, want)
		}
	}
	refused([]string{url, "--profile", "realtimestt"}, 1, "the profile realtimestt was not seen to fit this server, and nothing was written: ")
	full := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	refused([]string{full}, 1, "the server has refused every connection, so that nothing shows which profile fits: server answered 503")
	refused([]string{"ws://" + wstest.FreeAddress(t)}, 1, "connection refused: is the server running at this address?\n")
	for _, wrong := range []string{"http://127.0.0.1:1/", "localhost"} {
		refused([]string{wrong}, 2, "Error: argument URL: ")
		if _, _, messages := command("init", wrong); strings.Contains(messages, "Trying") {
			t.Errorf("%s is tried: %s", wrong, messages)
		}
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 103))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(long)
	refused([]string{url}, 1, "state/admin.sock, would have "+strconv.Itoa(len(long)+len("/state/admin.sock"))+" bytes, and may have at most 103: use a directory with a shorter path\n")
}
