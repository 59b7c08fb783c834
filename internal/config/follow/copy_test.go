package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
