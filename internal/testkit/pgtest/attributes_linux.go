package pgtest

import "syscall"

// attributes are those of a process that runs as another user and ends with the tests.
func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Pdeathsig: syscall.SIGQUIT}
}
