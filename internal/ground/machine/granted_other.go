//go:build !linux

package machine

// memoryLimit returns how many bytes the process may use, and whose they are: not known here.
func memoryLimit() (bytes int64, of string) { return -1, "" }

// localPorts returns how many local ports the system uses for connections from one address to one server: not known here.
func localPorts() int { return -1 }
