//go:build unix

package file

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestReplaceKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 4241, 4242); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 4241 || stat.Gid != 4242 {
		t.Errorf("the file belongs to %d:%d now", stat.Uid, stat.Gid)
	}
}

// What root makes anew in the proxy's directory is the proxy's, its history too.
func TestRootMakesFilesThatTheProxyCanRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	directory := t.TempDir()
	if err := os.Chown(directory, 4241, 4242); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "services.yaml")
	store, err := Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	configtest.Fill(t, store)
	made, err := filepath.Glob(filepath.Join(directory, "services.yaml*"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(directory, "services.yaml.history", "*"))
	if err != nil || len(records) == 0 {
		t.Fatalf("%q, %v", records, err)
	}
	for _, path := range append(made, records...) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 4241 || stat.Gid != 4242 {
			t.Errorf("%s belongs to %d:%d", path, stat.Uid, stat.Gid)
		}
	}
}

// Root replaces no file to which a link of the directory's owner leads, unless it is theirs.
func TestReplaceFollowsNoLinkOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path, target := filepath.Join(t.TempDir(), "services.yaml"), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("precious"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, 4241, 4242); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("the link is followed")
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if err := os.Chown(target, 4241, 4242); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Errorf("their own file: %v", err)
	}
}
