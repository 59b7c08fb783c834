package diagnosis

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// lowDisk is the free space from which on an operator should act, or lowShare of a disk, whichever is less.
	lowDisk  = 1 << 30
	lowShare = 10
	// fullDisk is the free space that is too little to write to a database, or fullShare of a disk, whichever is less.
	fullDisk  = 256 << 10
	fullShare = 20
)

// ofDisks reports disks that the proxy writes to and that have little room.
func ofDisks(f *Facts, found *findings) {
	for i := range f.Stats.Disks {
		d := &f.Stats.Disks[i]
		if text, full := diskTrouble(d); full {
			found.add(DiskFull, disk(d), "%s", text).Cure = "df -h " + d.Path
		} else if text != "" {
			found.add(DiskLow, disk(d), "%s", text).Cure = "df -h " + d.Path
		}
	}
}

func disk(d *api.Disk) subject { return subject{what: "disk " + d.Path} }

// diskTrouble returns what is wrong with a disk that the proxy writes to, and whether it is full; empty if it has room.
func diskTrouble(d *api.Disk) (text string, full bool) {
	switch {
	case d.FreeBytes < min(fullDisk, d.SizeBytes/fullShare):
		text = fmt.Sprintf("it has no room for the proxy's files (%s): the proxy serves, but can store nothing there", d.Holds)
		if strings.Contains(d.Holds, "database") {
			text += ", so changes of the configuration fail"
		}
		return text, true
	case d.FreeBytes < min(lowDisk, d.SizeBytes/lowShare):
		return fmt.Sprintf("it has little room for the proxy's files (%s): %s of %s are free", d.Holds, figures.Bytes(float64(d.FreeBytes)), figures.Bytes(float64(d.SizeBytes))), false
	}
	return "", false
}
