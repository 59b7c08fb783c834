package follow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// A copy is of one source, whatever that is called where the process runs: the file services.yaml of another directory has other servers.
func TestCopyOfAnotherDirectory(t *testing.T) {
	content := configtest.Sized(1)
	snapshot, err := config.NewSnapshot("7", &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "last-good.yaml")
	if err := writeCopy(path, "/a/services.yaml", snapshot); err != nil {
		t.Fatal(err)
	}
	if !IsCopy(path, "/a/services.yaml", "services.yaml") || IsCopy(path, "/b/services.yaml", "services.yaml") {
		t.Error("it is taken for another source's copy, or not for this one's")
	}
	if _, err := readCopy(path, "/b/services.yaml", "services.yaml"); err == nil || !strings.HasSuffix(err.Error(), "is a copy of /a/services.yaml") {
		t.Errorf("reading another one's: %v", err)
	}
	if err := writeCopy(path, "services.yaml", snapshot); err != nil { // as before copies had whole paths
		t.Fatal(err)
	}
	if now, err := readCopy(path, "/a/services.yaml", "services.yaml"); err != nil || now.Version() != "7" {
		t.Errorf("reading an older one: %v", err)
	}
}

// A copy that could not be read again is not written: the former one stays, and the error is reported.
func TestCopyThatIsTooLarge(t *testing.T) {
	content := configtest.Sized(40_000)
	snapshot, err := config.NewSnapshot("7", &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "last-good.yaml")
	if err := writeCopy(path, "a", snapshot); err == nil || !strings.Contains(err.Error(), "only 4194304 can be read again") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written")
	}
}

// A disk that does not answer keeps no change from coming into force, and does not hold up the end. What is written when it answers again is the latest.
func TestCopyOnDiskThatStalls(t *testing.T) {
	r := newRig(t)
	var stalled chan struct{}
	var written []string
	r.write = func(_, _ string, s *config.Snapshot) error {
		if s.Version() != "1" {
			<-stalled
		}
		written = append(written, s.Version())
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		stalled = make(chan struct{})
		r.store.say(snapshot(t, "1", 1), nil)
		end := r.mustStart()
		for _, version := range []string{"2", "3"} {
			r.store.say(snapshot(t, version, len(version)+len(r.versions())), nil)
			time.Sleep(copyTimeout + time.Second)
			r.expect(version, Current, "")
			if s := r.Status(); s.Unsaved != errNoAnswer.Error() {
				t.Errorf("unsaved: %q", s.Unsaved)
			}
		}
		close(stalled)
		time.Sleep(copyInterval)
		synctest.Wait()
		if s := r.Status(); s.Unsaved != "" || !slices.Equal(written, []string{"1", "2", "3"}) {
			t.Errorf("unsaved: %q, written: %q", s.Unsaved, written)
		}
		end()
	})
}
