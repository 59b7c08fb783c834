package loop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/cgroup"
)

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string // in the cgroup and the one above
		v1    bool
		want  float64 // 0 for none
	}{
		{"none", nil, false, 0},
		{"max", map[string]string{"sub/cpu.max": "max 100000\n"}, false, 0},
		{"half", map[string]string{"sub/cpu.max": "50000 100000\n"}, false, 0.5},
		{"above", map[string]string{"sub/cpu.max": "max 100000\n", "cpu.max": "250000 100000"}, false, 2.5},
		{"both", map[string]string{"sub/cpu.max": "300000 100000\n", "cpu.max": "200000 50000"}, false, 3},
		{"nonsense", map[string]string{"sub/cpu.max": "many of 0\n", "cpu.max": "1"}, false, 0},
		{"version 1", map[string]string{"sub/cpu.cfs_quota_us": "150000\n", "sub/cpu.cfs_period_us": "100000\n"}, true, 1.5},
		{"version 1, none", map[string]string{"sub/cpu.cfs_quota_us": "-1\n", "sub/cpu.cfs_period_us": "100000\n"}, true, 0},
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		group := cgroup.Group{Directories: []string{filepath.Join(root, "sub"), root}, Unified: !c.v1}
		if got, ok := quota(group); got != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %g, %t; want %g", c.name, got, ok, c.want)
		}
	}
	if n := cpuLimit(); n <= 0 {
		t.Errorf("this machine has %g processors", n)
	}
}
