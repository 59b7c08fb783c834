package machine

import "golang.org/x/sys/unix"

// networkFiles are the file systems that several hosts may use, by their magic number (statfs(2)).
var networkFiles = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "an SMB share", unix.CIFS_SUPER_MAGIC: "an SMB share", unix.SMB2_SUPER_MAGIC: "an SMB share",
	unix.CEPH_SUPER_MAGIC: "CephFS", unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.V9FS_MAGIC: "a 9P share",
	unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x01161970: "GFS2", 0x0bd00bd0: "Lustre", unix.FUSE_SUPER_MAGIC: "FUSE", 0x564c: "NCP", 0x47504653: "GPFS",
	0xaad7aaea: "PanFS",
}

// NetworkFile returns which file system for several hosts a folder is on, whose locks prove nothing; empty for none that is known.
func NetworkFile(path string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return ""
	}
	return networkFiles[uint32(s.Type)] //nolint:gosec // magic numbers have 32 bits
}
