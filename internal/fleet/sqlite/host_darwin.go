package sqlite

import "golang.org/x/sys/unix"

// networkFilesystem returns the name of the network file system that a directory is on; empty if it is on none.
func networkFilesystem(directory string) string {
	var stat unix.Statfs_t
	if unix.Statfs(directory, &stat) != nil || stat.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(stat.Fstypename[:])
}
