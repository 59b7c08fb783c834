//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRootMakesDatabasesThatTheProxyCanOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s, path := opened(t)
	must(t, os.Chown(filepath.Dir(path), 4241, 4242))
	fill(t, s)
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
	fill(t, s)
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), "elsewhere.db")); err != nil || info.Size() == 0 {
		t.Errorf("the file that the link names: %v, %v", info, err)
	}
}
