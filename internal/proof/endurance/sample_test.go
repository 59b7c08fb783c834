//go:build linux

package endurance

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// What was found is not lost when a sample cannot be written, as on a full disk.
func TestUnwritten(t *testing.T) {
	o := Options{Directory: t.TempDir()}
	r := &run{o: o, journal: kit.NewJournal(t.Output()), count: make(map[string]int), found: make(map[string]int)}
	open := func(flag int) {
		t.Helper()
		file, err := os.OpenFile(o.recordFile(), os.O_CREATE|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		r.records = file
	}
	open(os.O_RDONLY)
	r.happened("upgrades", 2)
	r.find("a session failed", "")
	if err := r.write(&record{}); err == nil || !strings.Contains(err.Error(), "a session failed: 1") {
		t.Errorf("not written: %v", err)
	}
	open(os.O_WRONLY)
	for range 2 {
		if err := r.write(&record{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readRecords(o.recordFile())
	if err != nil || len(all) != 2 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	if found := all[0].Found; !maps.Equal(found, map[string]int{"a session failed": 1, unwritten: 1}) || all[0].Count["upgrades"] != 2 {
		t.Errorf("counted %v and found %v", all[0].Count, found)
	}
	if len(all[1].Found)+len(all[1].Count) > 0 {
		t.Errorf("twice: counted %v and found %v", all[1].Count, all[1].Found)
	}
}
