package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that others can change, or replace, is not started.
func TestCheckOwners(t *testing.T) {
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(directory, "bin")
	path := filepath.Join(inner, "program")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, directory os.FileMode
		says            string // empty for nothing
	}{
		{0o755, 0o755, ""},
		{0o755, 0o700, ""},
		{0o755, 0o777 | os.ModeSticky, ""},
		{0o757, 0o755, "the file " + path + " has mode 0757"},
		{0o775, 0o755, "the file " + path + " has mode 0775"},
		{0o755, 0o775, "the directory " + inner + " has mode 0775"},
		{0o755, 0o777, "the directory " + inner + " has mode 0777"},
	} {
		set(path, c.file)
		set(inner, c.directory)
		if err := CheckOwners(path); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%o in %o: %v; want %q", c.file, c.directory, err, c.says)
		}
	}
	set(inner, 0o755)
	if err := CheckOwners(inner); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := CheckOwners(path); err == nil || !strings.Contains(err.Error(), "belongs to uid 12345") {
			t.Errorf("a file of another user: %v", err)
		}
	}
	if found, _, err := (&Program{}).Find(filepath.Join(directory, "none")); err == nil {
		t.Errorf("found %s", found)
	}
	// What is checked is what a link leads to.
	set(path, 0o757)
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(directory, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&Program{}).Find(link); err == nil || !strings.Contains(err.Error(), "has mode 0757") {
		t.Errorf("a link to it: %v", err)
	}
	// The successor is to look where the link leads then.
	set(path, 0o755)
	if found, name, err := (&Program{Path: link}).Find(""); err != nil || found != path || name != link {
		t.Errorf("found %s as %s, %v", found, name, err)
	}
}
