//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestRootMakesDatabasesThatTheProxyCanOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s, path := opened(t)
	must(t, os.Chown(filepath.Dir(path), 4241, 4242))
	configtest.Fill(t, s)
	files, err := filepath.Glob(path + "*")
	must(t, err)
	if len(files) < 3 {
		t.Errorf("the store has only the files %q", files)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		must(t, err)
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 4241 || stat.Gid != 4242 {
			t.Errorf("%s belongs to %d:%d, not to the directory's owner", filepath.Base(file), stat.Uid, stat.Gid)
		}
	}
}

func TestALinkToAMissingFile(t *testing.T) {
	s, path := opened(t)
	must(t, os.Symlink("elsewhere.db", path))
	configtest.Fill(t, s)
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), "elsewhere.db")); err != nil || info.Size() == 0 {
		t.Errorf("the file that the link names: %v, %v", info, err)
	}
}

// Root makes no database where a link of the directory's owner leads.
func TestRootFollowsNoLinkOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s, path := opened(t)
	target := filepath.Join(t.TempDir(), "elsewhere.db")
	must(t, os.Symlink(target, path))
	must(t, os.Lchown(path, 4241, 4242))
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "is a symbolic link of another user (4241) to a missing file") {
		t.Errorf("loading through the link: %v", err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a file was made where the link leads")
	}
	must(t, os.WriteFile(target, nil, 0o600)) // SQLite would make a database of it
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "to a file that is not theirs") {
		t.Errorf("loading through the link: %v", err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() > 0 {
		t.Errorf("the file was changed: %v, %v", info, err)
	}
}
