package loop

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFindCgroup(t *testing.T) {
	const (
		v2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		v1 = "31 20 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" +
			"32 20 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		unified              bool
		want                 []string
	}{
		{"nothing", "", "", false, nil},
		{"not mounted", "0::/a\n", v1, true, nil},
		{"version 2", "0::/a/b\n", v2, true, []string{"/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"}},
		{"in a namespace", "0::/\n", v2, true, []string{"/sys/fs/cgroup"}},
		{"version 1", "4:cpuset:/x\n3:cpu,cpuacct:/a\n0::/u\n", v2 + v1, false, []string{"/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/cpu,cpuacct"}},
		{
			"a container without a namespace", "0::/docker/1f/sub\n", "30 20 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n", true,
			[]string{"/sys/fs/cgroup/sub", "/sys/fs/cgroup"},
		},
		{
			"another part of the tree", "0::/docker/1f2\n", "30 20 0:26 /docker/1f /mnt/c\\040g ro - cgroup2 cgroup2 ro\n", true,
			[]string{"/mnt/c g"},
		},
		{"nonsense", "x\n0::\n", "y\n- \n" + v2, true, []string{"/sys/fs/cgroup"}},
	} {
		got := findCgroup(c.groups, c.mounts)
		if !slices.Equal(got.directories, c.want) || got.unified != c.unified {
			t.Errorf("%s: %+v; want %v", c.name, got, c.want)
		}
	}
}

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
		group := cgroup{directories: []string{filepath.Join(root, "sub"), root}, unified: !c.v1}
		if got, ok := group.quota(); got != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %g, %t; want %g", c.name, got, ok, c.want)
		}
	}
	if n := cpuLimit(); n <= 0 {
		t.Errorf("this machine has %g processors", n)
	}
}
