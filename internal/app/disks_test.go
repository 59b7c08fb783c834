package app

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A disk that holds several things is shown once, and a directory that does not exist not at all.
func TestDisks(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	all := look([]api.Disk{{Path: state, Holds: "state"}, {Path: state, Holds: "database"}, {Path: filepath.Join(state, "none"), Holds: "access log"}})
	if len(all) == 0 {
		t.Skip("this system does not know how much space there is")
	}
	if d := all[0]; len(all) != 1 || d.Path != state || d.Holds != "state, database" || d.SizeBytes == 0 || d.FreeBytes > d.SizeBytes {
		t.Errorf("%+v", all)
	}
}
