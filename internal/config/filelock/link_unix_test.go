//go:build unix

package filelock

import (
	"os"
	"path/filepath"
	"testing"
)

// Root makes no file where a link leads that has the name of a lock's file.
func TestLockFollowsNoLink(t *testing.T) {
	path, target := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(target, path+".lock"); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(path+".lock", 4241, 4242); err != nil {
			t.Fatal(err)
		}
	}
	if unlock, err := Lock(t.Context(), path); err == nil {
		unlock()
		t.Error("the link is followed")
	}
	if _, err := os.Stat(target); err == nil && os.Geteuid() == 0 {
		t.Error("a file was made where the link leads")
	}
}

// TestLink: who names a symbolic link to a file has the file's lock, and one who names a link to nothing has one beside the link.
func TestLink(t *testing.T) {
	path, link := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, locked := range []string{link, path} {
		unlock, err := Lock(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		waitInVain(t, locked)
		unlock()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
