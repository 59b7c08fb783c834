//go:build linux

package fleetproof

import (
	"context"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"time"
)

// processLock are the names of the files that processes of proxies lock as long as they live.
var processLock = regexp.MustCompile(`/fleet/[0-9a-f]{16}\.lock$`)

// checkLeft checks that the ended proxies have left no connection, port, socket or lock behind.
func (r *proof) checkLeft(ctx context.Context) {
	if err := wait(ctx, 200*time.Millisecond); err != nil { // servers' kernels see the last ends
		return
	}
	for _, s := range r.servers {
		if n := r.watcher.count(s.seen); n > 0 {
			r.journal.violation("connections are left", nil, "%s has %d after all proxies have ended", s.name, n)
		}
	}
	for _, p := range r.proxies {
		for _, address := range []string{p.listen, p.admin} {
			if nc, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = nc.Close()
				r.journal.violation("a port is left", nil, "%s still listens at %s", p.name, address)
			}
		}
		_ = filepath.WalkDir(p.state, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && (entry.Type()&fs.ModeSocket != 0 || processLock.MatchString(filepath.ToSlash(path))) {
				r.journal.violation("files are left", nil, "%s has left %s", p.name, path)
			}
			return nil
		})
	}
}
