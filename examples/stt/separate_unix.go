//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// separate gives the process a group of its own, so that a Ctrl-C reaches it only through us.
func separate(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
