package kit

import (
	"os/exec"
	"syscall"
)

// Separate gives a command that is not started yet its own process group, so that a Ctrl-C at the terminal does not reach it. It ends with this
// process, however that ends.
func Separate(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// KillGroup kills a process that was started with [Separate], and all that it has started.
func (p *Process) KillGroup() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may have ended
	p.Kill()
}
