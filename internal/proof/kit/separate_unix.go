//go:build unix && !linux

package kit

import (
	"os/exec"
	"syscall"
)

// Separate gives a command that is not started yet its own process group, so that a Ctrl-C at the terminal does not reach it.
func Separate(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
