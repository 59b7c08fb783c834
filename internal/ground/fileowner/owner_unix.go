//go:build unix

package fileowner

import (
	"io/fs"
	"os"
	"syscall"
)

// Give gives a file, if this process is root, the owner and the group of another one. Where that cannot be done, in some containers and on
// some file systems, the file stays root's.
func Give(file *os.File, like fs.FileInfo) {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = file.Chown(int(stat.Uid), int(stat.Gid))
	}
}

// rootOwns reports whether a file belongs to root.
func rootOwns(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
