package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

type record struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func numbers(records []record) (all []int) {
	for _, r := range records {
		all = append(all, r.N)
	}
	return all
}

func options(path string) Options { return Options{Path: path, MaxBytes: 1 << 20, Unwritten: 4} }

// What was appended is there after a restart, oldest first, and no more than was asked for.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		for process := range 3 {
			records, err := Read[record](path, 3)
			j := Open[record](options(path))
			if err != nil {
				t.Fatal(err)
			}
			want := []int{0, 1, 10, 11}[:2*min(process, 2)]
			want = want[max(0, len(want)-3):]
			if got := numbers(records); !slices.Equal(got, want) {
				t.Errorf("process %d: %v; want %v", process, got, want)
			}
			if process == 2 {
				j.Close()
				return
			}
			j.Append(record{10 * process, "first"})
			time.Sleep(2 * writeDelay) // of the test's own clock
			synctest.Wait()
			if now, err := Read[record](path, 1); err != nil || len(now) != 1 || now[0].N != 10*process {
				t.Errorf("process %d: %v has not been written before the end: %v", process, now, err)
			}
			j.Append(record{10*process + 1, "last"})
			j.Close()
			j.Close()
		}
	})
}

// The file never grows beyond what it may have, and neither does what is kept of it.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		o := options(path)
		o.MaxBytes = 200
		j := Open[record](o)
		for n := range 100 {
			j.Append(record{n, "some twenty characters"})
			time.Sleep(2 * writeDelay)
			synctest.Wait()
			for _, path := range []string{path, aside(path)} {
				if info, err := os.Stat(path); err == nil && info.Size() > o.MaxBytes+100 {
					t.Fatalf("%s has %d bytes", path, info.Size())
				}
			}
		}
		j.Close()
		records, err := Read[record](path, 1000)
		if err != nil || len(records) < 4 || len(records) > 20 || records[len(records)-1].N != 99 {
			t.Errorf("%v, %v", numbers(records), err)
		}
	})
}

// Two processes append to one file, also while one of them puts it aside. Neither cuts a line of the other's.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		o := options(path)
		o.MaxBytes = 400
		a, b := Open[record](o), Open[record](o)
		for n := range 20 {
			a.Append(record{2 * n, "of a"})
			time.Sleep(2 * writeDelay)
			b.Append(record{2*n + 1, "of b"})
			time.Sleep(2 * writeDelay)
		}
		a.Close()
		b.Close()
		records, err := Read[record](path, 10)
		if want := []int{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}; err != nil || !slices.Equal(numbers(records), want) {
			t.Errorf("%v, %v; want %v", numbers(records), err, want)
		}
	})
}

// While the disk takes nothing, the last records wait. A line that was cut off costs no other.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "state")
		path := filepath.Join(directory, "a.jsonl")
		j := Open[record](options(path))
		for n := range 10 {
			j.Append(record{n, "waits"})
		}
		time.Sleep(2 * writeDelay)
		synctest.Wait()
		if j.Problem() == nil {
			t.Error("there is no problem without the directory")
		}
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"n": 1, "te`), 0o600); err != nil { // by a process before this one
			t.Fatal(err)
		}
		time.Sleep(2 * retryDelay)
		synctest.Wait()
		if err := j.Problem(); err != nil {
			t.Error(err)
		}
		records, err := Read[record](path, 100)
		if want := []int{6, 7, 8, 9}; err != nil || !slices.Equal(numbers(records), want) {
			t.Errorf("%v, %v; want %v", numbers(records), err, want)
		}
		j.Close()
	})
}

// A file that cannot be read is no reason to stop.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		j := Open[record](options(path))
		records, err := Read[record](path, 1)
		if err == nil || len(records) > 0 {
			t.Errorf("%v, %v", records, err)
		}
		j.Append(record{1, "no file"})
		j.Close()
		if j.Problem() == nil {
			t.Error("a directory was written to")
		}
	})
}
