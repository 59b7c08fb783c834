//go:build unix

package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// owner returns the user and the group that a file belongs to.
func owner(t *testing.T, path string) [2]uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return [2]uint32{stat.Uid, stat.Gid}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file, err := Create(path, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode() != 0o640 {
		t.Errorf("Create made %v, %v", info, err)
	}
	if _, err := Create(path, 0o640); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating an existing file: %v", err)
	}
}

func TestRootMakesFilesForTheDirectorysOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	directory := t.TempDir()
	for _, c := range []struct {
		directory, file [2]uint32
	}{
		{[2]uint32{0, 4242}, owner(t, directory)}, // root's directory says nothing
		{[2]uint32{4241, 4242}, [2]uint32{4241, 4242}},
	} {
		if err := os.Chown(directory, int(c.directory[0]), int(c.directory[1])); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, "file")
		file, err := Create(path, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		if got := owner(t, path); got != c.file {
			t.Errorf("a file in a directory of %v belongs to %v, not %v", c.directory, got, c.file)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
