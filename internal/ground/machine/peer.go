package machine

import "os"

// IsOwnUser reports whether the processes of a user can do all that this process can: it is this process's user, or root.
func IsOwnUser(uid int) bool { return uid == 0 || uid == os.Geteuid() }
