//go:build unix

package proxyprocess

import (
	"os/exec"
	"syscall"
)

// Separate gives a command that is not started yet a process group of its own, so that a Ctrl-C at the terminal does not reach it.
func Separate(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
