package app

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// diskInterval is how often the space of disks is looked at.
const diskInterval = 5 * time.Second

// disks knows how much space the file systems have to which the proxy writes. One goroutine looks, since a disk may not answer.
type disks struct {
	latest atomic.Pointer[[]api.Disk]
}

// run looks until ctx ends. It does not wait for a disk that does not answer, whose goroutine ends when the disk answers.
func (d *disks) run(ctx context.Context, inUse func() []api.Disk) {
	for more := true; more; more = tasks.Sleep(ctx, diskInterval) {
		seen := make(chan []api.Disk, 1)
		go func() { seen <- look(inUse()) }()
		select {
		case now := <-seen:
			d.latest.Store(&now)
		case <-ctx.Done():
		}
	}
}

// shown returns what was seen last.
func (d *disks) shown() []api.Disk {
	if now := d.latest.Load(); now != nil {
		return slices.Clone(*now)
	}
	return nil
}

// look returns the file systems of directories, each once.
func look(directories []api.Disk) (all []api.Disk) {
	at := make(map[string]int) // in all
	for _, disk := range directories {
		size, free, id, err := machine.DiskSpace(disk.Path)
		if err != nil || size == 0 {
			continue
		}
		if i, ok := at[id]; ok {
			all[i].Holds += ", " + disk.Holds
			continue
		}
		disk.SizeBytes, disk.FreeBytes = size, free
		at[id] = len(all)
		all = append(all, disk)
	}
	return all
}

// directoriesInUse returns where the proxy writes.
func (p *Proxy) directoriesInUse() (all []api.Disk) {
	s := p.live.Load()
	if s.StateDirectory != "" {
		all = append(all, api.Disk{Path: s.StateDirectory, Holds: "state"})
	}
	if path, ok := stores.SQLite(s.Database); ok && s.Database != "" {
		all = append(all, api.Disk{Path: filepath.Dir(path), Holds: "database"})
	}
	if s.AccessLog != "" {
		all = append(all, api.Disk{Path: filepath.Dir(s.AccessLog), Holds: "access log"})
	}
	return all
}
