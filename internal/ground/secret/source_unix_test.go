//go:build unix

package secret

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe without a writer does not hold up a dial.
func TestPipe(t *testing.T) {
	directory := t.TempDir()
	pipe := filepath.Join(directory, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Source{Directories: []string{directory}}
	if _, err := s.Header("file:" + pipe); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Error(err)
	}
}
