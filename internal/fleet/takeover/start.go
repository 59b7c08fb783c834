package takeover

import (
	"net"
	"slices"
	"strings"
)

// Program is how the running process was started, so that its successor is started in the same way.
type Program struct {
	Path        string   // as it was called; it may be relative to Directory, or be found in PATH
	Arguments   []string // of serve, without the program and the command
	Environment []string
	Directory   string // where the process was started
}

// Flag is the flag of serve that has the successor take over. Its value here is the descriptor of the connection.
const Flag = "--take-over"

// Child is a successor that this process has started.
type Child struct {
	PID  int
	Conn *net.UnixConn // to it, for [Hand]; it breaks when the child ends
	fd   int           // of the process (pidfd_open(2)); negative for none
}

// own are the variables of the environment that are for one process only (sd_listen_fds(3), sd_watchdog_enabled(3)).
var own = []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_PID"}

// environment returns the environment of a successor.
func (p *Program) environment() []string {
	return slices.DeleteFunc(slices.Clone(p.Environment), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(own, name)
	})
}

// arguments returns the arguments of serve that a successor gets beside its own flag.
func (p *Program) arguments() []string {
	return slices.DeleteFunc(slices.Clone(p.Arguments), func(argument string) bool {
		return argument == Flag || strings.HasPrefix(argument, Flag+"=")
	})
}
