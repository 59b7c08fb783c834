package sqlite

import "golang.org/x/sys/unix"

// networkFilesystems are the magic numbers (statfs(2)) of file systems that several hosts may use.
var networkFilesystems = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x73757245: "Coda", 0x5346414f: "AFS", 0x564c: "NCP",
	0x00c36400: "Ceph", 0x47504653: "GPFS", 0x0bd00bd0: "Lustre", 0x7461636f: "OCFS2", 0x01161970: "GFS2", 0xaad7aaea: "PanFS",
}

// networkFilesystem returns the name of the network file system that a directory is on; empty if it is on none.
func networkFilesystem(directory string) string {
	var stat unix.Statfs_t
	if unix.Statfs(directory, &stat) != nil {
		return ""
	}
	return networkFilesystems[uint32(stat.Type)]
}
