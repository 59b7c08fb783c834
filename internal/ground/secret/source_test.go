package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
)

func TestHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own token")
	if err := os.WriteFile(path, []byte("from-file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(filepath.Dir(path), "token")
	if err := os.Rename(path, plain); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OWN_TOKEN", "from-env")
	t.Setenv("OWN_EMPTY", "")
	t.Setenv("OWN_BAD", "s3cret\r\nX-Evil: 1")
	for _, c := range []struct{ value, want, err string }{
		{"eu-west", "eu-west", ""},
		{"env:OWN_TOKEN", "from-env", ""},
		{"Bearer env:OWN_TOKEN", "Bearer from-env", ""},
		{"file:" + plain, "from-file", ""},
		{"Token file:" + plain, "Token from-file", ""},
		{"env:OWN_NOT_THERE", "", "env:OWN_NOT_THERE: the environment variable is not set"},
		{"env:OWN_EMPTY", "", "env:OWN_EMPTY: the value is empty"},
		{"env:OWN_BAD", "", "env:OWN_BAD: the value has control characters"},
		{"file:" + plain + ".no", "", "no such file"},
	} {
		got, err := Resolve(c.value)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s is %q, %v; it should be %q, %q", c.value, got, err, c.want, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// A file of the configuration that hangs takes no more time than others may.
func TestMountHangs(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "token")
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan struct{})
		go func() { _, _ = timedread.Do(path, func() (any, error) { <-mount; return nil, nil }) }()
		synctest.Wait()
		s := &Source{Directories: []string{directory}}
		if _, err := s.Header("Bearer file:" + path); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		close(mount)
	})
}
