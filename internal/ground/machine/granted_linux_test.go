package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/cgroup"
)

func TestCountPorts(t *testing.T) {
	for _, c := range []struct {
		within, reserved string
		want             int
	}{
		{"32768\t60999\n", "\n", 28232},
		{"32768\t60999\n", "8080,9148-9150\n", 28232},
		{"32768\t60999\n", "8080,32768,40000-40009,60990-61100\n", 28232 - 1 - 10 - 10},
		{"1024\t1024\n", "1000-2000\n", 0},
		{"1024 65535", "x,-,5-4,7-", 64512},
		{"", "", -1},
		{"2 1", "", -1},
		{"many few", "", -1},
	} {
		if got := countPorts(c.within, c.reserved); got != c.want {
			t.Errorf("%q without %q: %d ports; want %d", c.within, c.reserved, got, c.want)
		}
	}
}

func TestLeastMemory(t *testing.T) {
	const machine = 1 << 30
	for name, c := range map[string]struct {
		files map[string]string // in the cgroup and the one above
		v1    bool
		want  int64
	}{
		"none":               {nil, false, machine},
		"max":                {map[string]string{"sub/memory.max": "max\n"}, false, machine},
		"its own":            {map[string]string{"sub/memory.max": "1048576\n", "memory.max": "max\n"}, false, 1 << 20},
		"the one above":      {map[string]string{"sub/memory.max": "4096000\n", "memory.max": "1048576\n"}, false, 1 << 20},
		"more than there is": {map[string]string{"memory.max": "9223372036854771712\n"}, false, machine},
		"nonsense":           {map[string]string{"memory.max": "much\n", "sub/memory.max": "-1"}, false, machine},
		"version 1":          {map[string]string{"memory.limit_in_bytes": "1048576\n"}, true, 1 << 20},
		"version 1, none":    {map[string]string{"memory.limit_in_bytes": "9223372036854771712\n"}, true, machine},
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		group := cgroup.Group{Directories: []string{filepath.Join(root, "sub"), root}, Unified: !c.v1}
		if got, of := leastMemory(machine, group); got != c.want || (of == "the machine") != (c.want == machine) {
			t.Errorf("%s: %d of %s; want %d", name, got, of, c.want)
		}
	}
	if n := machineMemory("MemTotal:       24684544 kB\nMemFree: 1 kB\n"); n != 24684544<<10 {
		t.Errorf("%d", n)
	}
	if n := machineMemory("nonsense\nMemTotal:\n"); n != -1 {
		t.Errorf("%d", n)
	}
}

// This machine reports all of it.
func TestGranted(t *testing.T) {
	if h := Granted(); h.Descriptors <= 0 || h.Memory <= 1<<20 || h.MemoryOf == "" || h.Ports <= 0 {
		t.Errorf("%+v", h)
	}
}
