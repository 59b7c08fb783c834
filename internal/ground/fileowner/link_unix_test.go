//go:build unix

package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// For root, its own links may lead anywhere, those of others to their own files only.
func TestFollow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const stranger, other = 4241, 4242
	for _, c := range []struct {
		name      string
		links     []int // their owners, the first one first
		file      int   // its owner; -1 for a missing one
		isRefused bool
	}{
		{name: "nothing", file: -1},
		{name: "a file of another user", file: stranger},
		{name: "root's link to a missing file", links: []int{0}, file: -1},
		{name: "root's link to another user's file", links: []int{0}, file: stranger},
		{name: "a link to a file of the same user", links: []int{stranger}, file: stranger},
		{name: "two links to a file of the same user", links: []int{stranger, stranger}, file: stranger},
		{name: "a link to a missing file", links: []int{stranger}, file: -1, isRefused: true},
		{name: "a link to root's file", links: []int{stranger}, file: 0, isRefused: true},
		{name: "a link to another user's file", links: []int{stranger}, file: other, isRefused: true},
		{name: "root's link to a link to root's file", links: []int{0, stranger}, file: 0, isRefused: true},
		{name: "a link to root's link to a file of the same user", links: []int{stranger, 0}, file: stranger, isRefused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := t.TempDir()
			path := filepath.Join(directory, "file")
			if c.file >= 0 {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(path, c.file, 0); err != nil {
					t.Fatal(err)
				}
			}
			for i := range c.links {
				link := filepath.Join(directory, string(rune('a'+i)))
				if err := os.Symlink(filepath.Base(path), link); err != nil {
					t.Fatal(err)
				}
				if err := os.Lchown(link, c.links[len(c.links)-1-i], 0); err != nil {
					t.Fatal(err)
				}
				path = link
			}
			at, err := Follow(path)
			if (err != nil) != c.isRefused || err == nil && at != filepath.Join(directory, "file") {
				t.Errorf("%q, %v", at, err)
			}
		})
	}
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(loop); err == nil {
		t.Error("a link to itself is followed")
	}
}

// planted makes a link of a stranger in a directory of his, to a file where he may not write. It returns both.
func planted(t *testing.T, there bool) (link, target string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	target, link = filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "link")
	if there {
		if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(link), link} {
		if err := os.Lchown(path, 4241, 4242); err != nil {
			t.Fatal(err)
		}
	}
	return link, target
}

// Root neither makes nor changes a file to which a stranger's link leads.
func TestOpenFollowsNoStranger(t *testing.T) {
	for _, there := range []bool{false, true} {
		link, target := planted(t, there)
		if file, err := Open(link, 0o640); err == nil {
			_ = file.Close()
			t.Error("the link is followed")
		}
		if err := Write(link, []byte("x")); err == nil {
			t.Error("the link is followed for writing")
		}
		text, err := os.ReadFile(target)
		if there && string(text) != "precious" || !there && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("where it leads is %q, %v", text, err)
		}
	}
}
