//go:build unix && !linux

package pgtest

import "syscall"

// attributes are those of a process that runs as another user.
func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account}
}
