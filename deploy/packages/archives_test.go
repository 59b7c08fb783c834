//go:build linux

package packages_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestChecksums holds every file that a release publishes against its checksum, and every checksum against its file.
func TestChecksums(t *testing.T) {
	list := built(t, "checksums.txt", nil)
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	dist := filepath.Dir(list)
	sums := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("no checksum and name: %q", line)
		}
		sums[name] = sum
	}
	for _, pattern := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm"} {
		files, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("dist has no %s", pattern)
		}
		for _, file := range files {
			if sums[filepath.Base(file)] == "" {
				t.Errorf("%s has no checksum", filepath.Base(file))
			}
		}
	}
	for name, want := range sums {
		file, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := sha256.Sum256(file); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s does not have its checksum", name)
		}
	}
}

// TestArchive unpacks the archive for this machine, and runs the program.
func TestArchive(t *testing.T) {
	archive := built(t, "wsbouncer_*_linux_ARCH.tar.gz", map[string]string{runtime.GOARCH: runtime.GOARCH})
	into := t.TempDir()
	if output, err := exec.Command("tar", "-xzf", archive, "-C", into).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	top := filepath.Join(into, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
	for _, name := range []string{"LICENSE", "README.md", "wsbouncer.yaml", "completions/wsbouncer.bash", "man/wsbouncer.1.gz", "systemd/wsbouncer.service", "systemd/wsbouncer.socket", "systemd/wsbouncer.sysusers", "systemd/wsbouncer.needrestart"} {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
	output, err := exec.Command(filepath.Join(top, "wsbouncer"), "--version").CombinedOutput()
	version := strings.Split(filepath.Base(archive), "_")[1]
	if err != nil || !strings.HasPrefix(string(output), "wsbouncer v"+version+" (") {
		t.Errorf("--version of %s printed %q, %v", version, output, err)
	}
}
