//go:build unix

package fileowner

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Group returns the name of the group that a file belongs to; empty if that is root's, or not known.
func Group(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Gid == 0 {
		return ""
	}
	group, err := user.LookupGroupId(strconv.FormatUint(uint64(stat.Gid), 10))
	if err != nil {
		return ""
	}
	return group.Name
}

// SameRights reports whether two files, or one at two times, have the same owner, group and permissions.
func SameRights(a, b fs.FileInfo) bool {
	x, _ := a.Sys().(*syscall.Stat_t)
	y, _ := b.Sys().(*syscall.Stat_t)
	return a.Mode() == b.Mode() && (x == nil || y == nil || x.Uid == y.Uid && x.Gid == y.Gid)
}

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
