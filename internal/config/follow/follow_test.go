package follow

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

const (
	cannotFollow = "cannot follow the configuration, the last good version stays in force"
	readAgain    = "the configuration can be read again"
	byTheCopy    = "cannot read the configuration, serving with its last good copy"
	noCopyKept   = "cannot write the copy of the last good configuration"
)

// What is good comes into force; what is not leaves the last good one there, and says since when and why.
func TestGoodBadGood(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		r.expect("1", Current, "")
		time.Sleep(time.Minute)
		r.store.say(nil, errDown)
		first := r.expect("1", Stale, "connection refused")
		if first.Since != time.Now() || first.Failed != 1 || first.Checked.After(first.Since) {
			t.Errorf("after the first failure: %+v", first)
		}
		for range 10 { // a store that cannot be reached says so again and again
			time.Sleep(time.Second)
			r.store.bell.Ring()
		}
		later := r.expect("1", Stale, "connection refused")
		if later.Since != first.Since || later.Failed < 11 || r.log.count(cannotFollow) != 1 {
			t.Errorf("later: %+v, %d lines in the log", later, r.log.count(cannotFollow))
		}
		time.Sleep(time.Second)
		r.store.say(nil, errors.New("version 2 is not valid"))
		another := r.expect("1", Stale, "version 2 is not valid")
		if another.Since != first.Since || r.log.count(cannotFollow) != 2 {
			t.Errorf("for another reason: %+v, %d lines in the log", another, r.log.count(cannotFollow))
		}
		time.Sleep(time.Second)
		r.store.say(snapshot(t, "3", 3), nil)
		well := r.expect("3", Current, "")
		if well.Since != time.Now() || well.Applied != time.Now() || well.Changes != 2 || r.log.count(readAgain) != 1 {
			t.Errorf("well again: %+v", well)
		}
		if got := r.versions(); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("applied %v", got)
		}
	})
}

// A snapshot that cannot be put in force is like one that is not valid.
func TestRefused(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		r.mu.Lock()
		r.refuse = errors.New("no TLS")
		r.mu.Unlock()
		r.store.say(snapshot(t, "2", 2), nil)
		r.expect("1", Stale, "version 2 cannot be put in force: no TLS")
		time.Sleep(time.Second)
		r.store.say(snapshot(t, "3", 1), nil) // it has been repaired
		r.soon("3", Current, "")
		if got := r.versions(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("applied %v; what says the same needs not be", got)
		}
	})
}

// A few changes in a row are applied immediately, many at a minInterval, and the last of them in any case.
func TestPace(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "0", 1000), nil)
		defer r.mustStart()()
		time.Sleep(time.Second)
		before := r.store.loads
		last := snapshot(t, "last", 2000)
		for i := range burst {
			r.store.say(snapshot(t, "few", 3000+i), nil)
			synctest.Wait()
			if got := r.store.loads - before; got != i+1 {
				t.Fatalf("%d loads after %d changes in a row", got, i+1)
			}
		}
		before += burst
		for i := range 100 {
			r.store.say(snapshot(t, "n", i), nil)
			time.Sleep(10 * time.Millisecond)
		}
		r.store.say(last, nil)
		time.Sleep(minInterval)
		r.expect("last", Current, "")
		if n := r.store.loads - before; n > 7 {
			t.Errorf("%d loads within %v", n, time.Second+minInterval)
		}
	})
}

// A store that does not answer is one that fails, after a while.
func TestNoAnswer(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		r.store.hangs = true
		r.store.bell.Ring()
		time.Sleep(10*time.Second - 1)
		r.expect("1", Current, "")
		time.Sleep(time.Nanosecond)
		r.expect("1", Stale, "no answer within 10s")
		r.store.hangs = false
		r.store.bell.Ring()
		time.Sleep(minInterval)
		r.expect("1", Current, "")
	})
}

// Close ends a reading that hangs.
func TestClose(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "1", 1), nil)
		end := r.mustStart()
		time.Sleep(time.Second)
		r.store.hangs = true
		r.store.bell.Ring()
		synctest.Wait()
		begun := time.Now()
		end()
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
		r.expect("1", Current, "")
	})
}

// A start without the store goes by the copy, and says so until the store is back.
func TestCopy(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "7", 1), nil)
		r.mustStart()()
		time.Sleep(time.Hour)
		r.store.say(nil, errDown)
		defer r.mustStart()()
		s := r.expect("7", Copied, "connection refused")
		if s.Since != time.Now() || s.Applied != time.Now() || s.Changes != 1 || r.log.count(byTheCopy) != 1 || r.log.count(cannotFollow) != 0 {
			t.Errorf("by the copy: %+v, %v", s, r.log.lines)
		}
		time.Sleep(time.Minute)
		r.store.bell.Ring()
		if s := r.expect("7", Copied, "connection refused"); s.Since != time.Now().Add(-time.Minute) || s.Failed == 0 {
			t.Errorf("a minute later: %+v", s)
		}
		time.Sleep(time.Minute)
		r.store.say(snapshot(t, "8", 2), nil)
		time.Sleep(minInterval) // it may have tried again by itself just before
		r.expect("8", Current, "")
		if got := r.versions(); !slices.Equal(got, []string{"7", "7", "8"}) || r.log.count(readAgain) != 1 {
			t.Errorf("applied %v; %v", got, r.log.lines)
		}
	})
	last, err := readCopy(r.file, "the store")
	if err != nil {
		t.Fatal(err)
	}
	if service, _ := last.Service("stt"); last.Version() != "8" || service.Queue != 2 {
		t.Errorf("the copy has version %s, %+v", last.Version(), service)
	}
	if info, err := os.Stat(r.file); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the copy: %v, %v; no other user may read it", info.Mode(), err)
	}
}

// A copy that is of another store, damaged or not there is no help, and the error says why.
func TestNoCopy(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, file string)
		want  string
	}{
		{"none", func(*testing.T, string) {}, "does not exist"},
		{"of another store", func(t *testing.T, file string) {
			if err := writeCopy(file, "another store", snapshot(t, "1", 1)); err != nil {
				t.Fatal(err)
			}
		}, "is a copy of another store"},
		{"damaged", func(t *testing.T, file string) {
			if err := writeCopy(file, "the store", snapshot(t, "1", 1)); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, append(text, "servces: {}\n"...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, `"servces"`},
		{"empty", func(t *testing.T, file string) {
			if err := writeCopy(file, "the store", snapshot(t, "1", 1)); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
		}, "does not say which source it is a copy of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.store.err = errDown
			c.spoil(t, r.file)
			err := r.start()
			if !errors.Is(err, errDown) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the store") {
				t.Errorf("got %v; want %q in it", err, c.want)
			}
			if got := r.versions(); len(got) != 0 {
				t.Errorf("applied %v", got)
			}
		})
	}
}

// That no copy can be kept stops nothing.
func TestCopyCannotBeWritten(t *testing.T) {
	r := newRig(t)
	r.file = t.TempDir() // a directory
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "1", 1), nil)
		defer r.mustStart()()
		time.Sleep(time.Second)
		r.store.say(snapshot(t, "2", 2), nil)
		r.expect("2", Current, "")
		if n := r.log.count(noCopyKept); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
	})
}

// A copy that could not be written while the disk was full is written when it has room again: a start without the store goes by it.
func TestCopyIsWrittenLater(t *testing.T) {
	r := newRig(t)
	directory := filepath.Join(t.TempDir(), "state")
	r.file = filepath.Join(directory, "last-good.yaml")
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "1", 1), nil)
		stop := r.mustStart()
		time.Sleep(time.Second)
		away := directory + ".away"
		if err := os.Rename(directory, away); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(directory, nil, 0o600); err != nil { // nothing can be written there
			t.Fatal(err)
		}
		r.store.say(snapshot(t, "2", 2), nil)
		time.Sleep(time.Second)
		r.expect("2", Current, "")
		if s := r.Status(); s.Unsaved == "" || !s.UnsavedSince.Equal(time.Now().Add(-time.Second)) {
			t.Errorf("unsaved %q since %v", s.Unsaved, s.UnsavedSince)
		}
		if err := os.Remove(directory); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(away, directory); err != nil { // it can again
			t.Fatal(err)
		}
		time.Sleep(copyInterval)
		synctest.Wait()
		if s := r.Status(); s.Unsaved != "" {
			t.Errorf("unsaved: %s", s.Unsaved)
		}
		stop()
		r.store.say(nil, errDown)
		defer r.mustStart()()
		r.expect("2", Copied, "connection refused")
	})
}

// What is logged of a change names who made it and why, as far as the store knows.
func TestWhoAndWhy(t *testing.T) {
	r := newRig(t)
	revisions := []config.Revision{ // the newest first
		{Version: "6", Who: "dora"}, // not loaded yet
		{Version: "5", Who: "carol", Why: "long weekend"},
		{Version: "4", Who: "bob"},
		{Version: "3", Who: "carol", Why: "new model"},
		{Version: "2", Who: "alice", Why: "busy"},
		{Version: "1", Who: "zoe", Why: "first"},
	}
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "1", 1), nil)
		defer r.mustStart()()
		for _, c := range []struct {
			version  string
			history  []config.Revision
			who, why string
		}{
			{"2", revisions, "alice", "busy"},
			// Several at once.
			{"5", revisions, "carol, bob", "new model; long weekend"},
			// The history cannot be read, or does not know the version.
			{"7", nil, "", ""},
			{"8", revisions, "", ""},
		} {
			time.Sleep(time.Second)
			r.store.mu.Lock()
			r.store.history = c.history
			r.store.mu.Unlock()
			queue, _ := strconv.Atoi(c.version)
			r.store.say(snapshot(t, c.version, queue), nil)
			r.expect(c.version, Current, "")
			said := r.log.attributes("configuration changed")
			_, hasWhy := said["why"]
			if said["version"] != c.version || said["who"] != c.who || said["why"] != c.why || hasWhy != (c.why != "") {
				t.Errorf("version %s: %v; want %q, %q", c.version, said, c.who, c.why)
			}
		}
	})
}

// What mends itself without a change of the store, such as a schema that is migrated, is found within seconds, at the start and later.
func TestMendedSilently(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		for range 2 {
			time.Sleep(time.Hour)
			r.store.say(nil, errDown)
			r.expect("1", Stale, "connection refused")
			time.Sleep(time.Minute)
			r.store.mu.Lock()
			r.store.err, r.store.snapshot = nil, snapshot(t, "1", 1)
			loads := r.store.loads
			r.store.mu.Unlock()
			if loads < 8 {
				t.Errorf("%d reads; want one every few seconds while the store fails", loads)
			}
			time.Sleep(3 * retryInterval / 2)
			r.expect("1", Current, "")
		}
		loads := r.store.loads
		time.Sleep(time.Hour)
		synctest.Wait()
		if r.store.loads != loads {
			t.Errorf("%d reads of a store that is well and reports no change", r.store.loads-loads)
		}
	})
}

// A change that cannot be read at once, since the store is busy or has just been restarted, is in force within a second.
func TestReadAgainSoon(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		for _, version := range []string{"2", "3"} { // the second time, too
			time.Sleep(time.Minute)
			r.store.say(nil, errDown)
			synctest.Wait()
			r.store.mu.Lock()
			r.store.err, r.store.snapshot = nil, snapshot(t, version, 2)
			r.store.mu.Unlock()
			time.Sleep(time.Second)
			r.expect(version, Current, "")
		}
	})
}
