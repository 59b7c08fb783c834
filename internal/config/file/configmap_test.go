//go:build unix

package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// mount is a directory as a kubelet mounts a ConfigMap: each key is a link into ..data, which is a link to a directory with the files of
// one version. An update writes a new directory, renames a new link over ..data, and removes the old directory.
type mount struct {
	t    *testing.T
	path string
}

func newMount(t *testing.T, text string) mount {
	t.Helper()
	m := mount{t: t, path: t.TempDir()}
	m.publish("..2026_11_22_10_00_00.1", text)
	m.must(os.Symlink(filepath.Join("..data", "services.yaml"), m.file()))
	return m
}

func (m mount) file() string { return filepath.Join(m.path, "services.yaml") }

func (m mount) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// publish makes a version current, and removes the one before it. An empty text leaves the file out, as for a key that was removed.
func (m mount) publish(version, text string) {
	m.t.Helper()
	data := filepath.Join(m.path, "..data")
	before, _ := os.Readlink(data) // there is none at first
	m.must(os.Mkdir(filepath.Join(m.path, version), 0o755))
	if text != "" {
		m.must(os.WriteFile(filepath.Join(m.path, version, "services.yaml"), []byte(text), 0o444))
	}
	m.must(os.Symlink(version, data+"_tmp"))
	m.must(os.Rename(data+"_tmp", data))
	if before != "" {
		m.must(os.RemoveAll(filepath.Join(m.path, before)))
	}
}

// TestConfigMap follows the file of a mounted ConfigMap through its updates.
func TestConfigMap(t *testing.T) {
	m := newMount(t, small)
	s := opened(t, m.file())
	until := awaiting(t, s)
	until("the first version", has(32))
	m.publish("..2026_11_22_10_01_00.2", strings.Replace(small, "32", "48", 1)) // of the same size
	until("a new version", has(48))
	m.publish("..2026_11_22_10_02_00.3", strings.Replace(small, "32", "a lot", 1))
	until("a version with an error", func(_ *config.Snapshot, err error) bool {
		return err != nil && strings.Contains(err.Error(), "connections")
	})
	m.publish("..2026_11_22_10_03_00.4", "")
	until("a version without the file", func(_ *config.Snapshot, err error) bool {
		return err != nil && strings.Contains(err.Error(), "no longer exists")
	})
	m.publish("..2026_11_22_10_04_00.5", strings.Replace(small, "32", "16", 1))
	until("the version after it", has(16))
	entries, err := os.ReadDir(m.path)
	m.must(err)
	for _, e := range entries {
		switch e.Name() {
		case "..data", "..2026_11_22_10_04_00.5", "services.yaml":
		default:
			t.Errorf("the store made %s in the mounted directory", e.Name())
		}
	}
}
