package machine

import "golang.org/x/sys/unix"

// Boot identifies the system's last start; empty if it is not known.
func Boot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
