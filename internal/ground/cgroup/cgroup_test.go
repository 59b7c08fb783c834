package cgroup

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFind(t *testing.T) {
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
		got := find("cpu", c.groups, c.mounts)
		if !slices.Equal(got.Directories, c.want) || got.Unified != c.unified {
			t.Errorf("%s: %+v; want %v", c.name, got, c.want)
		}
	}
}

// Version 1 has a cgroup for each resource.
func TestOfMemory(t *testing.T) {
	mounts := "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 20 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	got := find("memory", "3:cpu:/a\n2:memory:/b\n", mounts)
	if want := []string{"/sys/fs/cgroup/memory/b", "/sys/fs/cgroup/memory"}; !slices.Equal(got.Directories, want) {
		t.Errorf("%v; want %v", got.Directories, want)
	}
}
