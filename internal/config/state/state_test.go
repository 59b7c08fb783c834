package state

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of unix")
	}
	for _, c := range []struct {
		system      string
		user        int
		environment map[string]string
		want        string
	}{
		{"linux", 0, nil, "/var/lib/wsbouncer"},
		{"linux", 0, map[string]string{"STATE_DIRECTORY": "/var/lib/one:/var/lib/two"}, "/var/lib/one"},
		{"linux", 1000, map[string]string{"STATE_DIRECTORY": "/var/lib/one", "HOME": "/home/a"}, "/var/lib/one"},
		{"linux", 1000, map[string]string{"HOME": "/home/a"}, "/home/a/.local/state/wsbouncer"},
		{"linux", 1000, map[string]string{"HOME": "/home/a", "XDG_STATE_HOME": "/home/a/state"}, "/home/a/state/wsbouncer"},
		{"linux", 1000, map[string]string{"HOME": "/home/a", "XDG_STATE_HOME": "state"}, "/home/a/.local/state/wsbouncer"},
		{"linux", 0, map[string]string{"HOME": "/root", "XDG_STATE_HOME": "/root/state"}, "/var/lib/wsbouncer"},
		{"linux", 1000, nil, "/var/lib/wsbouncer"},
		{"darwin", 501, map[string]string{"HOME": "/Users/a"}, "/Users/a/Library/Application Support/wsbouncer"},
		{"darwin", 0, map[string]string{"HOME": "/var/root"}, "/Library/Application Support/wsbouncer"},
		{"windows", -1, map[string]string{"LocalAppData": "/local"}, "/local/wsbouncer"},
		{"windows", -1, map[string]string{"USERPROFILE": "/a", "STATE_DIRECTORY": "/b"}, "/a/AppData/Local/wsbouncer"},
	} {
		got := directory(c.system, c.user, func(name string) string { return c.environment[name] })
		if got != c.want {
			t.Errorf("%s, user %d, %v: %s; want %s", c.system, c.user, c.environment, got, c.want)
		}
	}
}

// Commands look in the directory that the environment names, and otherwise in the user's and in the system's.
func TestDirectories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of unix")
	}
	for _, c := range []struct {
		system      string
		user        int
		environment map[string]string
		want        string
	}{
		{"linux", 0, nil, "/var/lib/wsbouncer"},
		{"linux", 1000, map[string]string{"HOME": "/home/a"}, "/home/a/.local/state/wsbouncer /var/lib/wsbouncer"},
		{"linux", 1000, map[string]string{"HOME": "/home/a", "WSBOUNCER_STATE_DIRECTORY": "/srv/ws", "STATE_DIRECTORY": "/var/lib/one"}, "/srv/ws"},
		{"linux", 1000, map[string]string{"HOME": "/home/a", "STATE_DIRECTORY": "/var/lib/one"}, "/var/lib/one"},
		{"windows", -1, map[string]string{"LocalAppData": "/local"}, "/local/wsbouncer"},
	} {
		got := directories(c.system, c.user, func(name string) string { return c.environment[name] })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, user %d, %v: %s; want %s", c.system, c.user, c.environment, got, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	seen := make(map[string]bool)
	for _, path := range []string{Database("/a"), AdminSocket("/a"), LastGood("/a"), Fleet("/a"), FleetMemory("/a"), Ends("/a"), Problems("/a"), History("/a")} {
		if filepath.Dir(path) != filepath.FromSlash("/a") || seen[path] {
			t.Errorf("%s", path)
		}
		seen[path] = true
	}
}

// Commands find an admin socket where they look, whatever systemd has told the proxy.
func TestIsFound(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("STATE_DIRECTORY", "/srv/ws")
	for socket, want := range map[string]bool{"/var/lib/wsbouncer/admin.sock": true, "/srv/ws/admin.sock": false, "/run/a.sock": false} {
		if got := IsFound(socket); got != want && runtime.GOOS == "linux" {
			t.Errorf("%s: %v; want %v", socket, got, want)
		}
	}
}
