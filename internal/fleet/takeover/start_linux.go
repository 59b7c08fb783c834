package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// successorFD is the descriptor of the connection in the successor: the first after standard error.
const successorFD = 3

// checkTimeout is how long the program's check may take.
const checkTimeout = 30 * time.Second

// Find returns the path of the program on disk now, without symbolic links: binary, or, if that is empty, the one that the process was started
// as. name is the path with links, which may lead to another program when the successor looks for its own. The error says that there is none, or
// that others could say what it is.
func (p *Program) Find(binary string) (path, name string, err error) {
	name = cmp.Or(binary, p.Path)
	if strings.ContainsRune(name, '/') && !filepath.IsAbs(name) {
		name = filepath.Join(p.Directory, name)
	}
	if name, err = exec.LookPath(name); err != nil {
		return "", "", fmt.Errorf("the program cannot be started: %w", err)
	}
	if name, err = filepath.Abs(name); err == nil {
		path, err = filepath.EvalSymlinks(name)
	}
	if err == nil {
		err = CheckOwners(path)
	}
	if err != nil {
		return "", "", fmt.Errorf("the program is not started: %w", err)
	}
	return path, name, nil
}

// Check has the program check the settings and the configuration that the successor would have. It returns what is wrong with the
// settings. What is wrong with the configuration is only said, since a proxy may start with its last good copy: the successor decides.
func (p *Program) Check(ctx context.Context, path string, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, append([]string{"check"}, p.arguments()...)...)
	command.Env, command.Dir, command.WaitDelay = p.environment(), p.Directory, 10*time.Second
	var said ending
	command.Stdout, command.Stderr = &said, &said // the same for both: os/exec writes it from one goroutine then
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		say(path + " check: settings and configuration are good")
		return nil
	case ctx.Err() != nil:
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s check: %w", path, err)
		}
		return fmt.Errorf("%s check: it has not ended in time", path)
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		say(strings.TrimSuffix(fmt.Sprintf("%s check: %v: %s", path, err, lastLines(said)), ": "))
		return nil
	}
	return errors.New(strings.TrimSuffix(fmt.Sprintf("%s check: %v: %s", path, err, lastLines(said)), ": "))
}

// ending is the end of a command's output. Any program may be started by mistake, and one may write without end.
type ending []byte

// mostOutput is how many bytes of a command's output are kept.
const mostOutput = 16 << 10

func (e *ending) Write(b []byte) (int, error) {
	*e = append(*e, b[max(0, len(b)-mostOutput):]...)
	if over := len(*e) - mostOutput; over > 0 {
		*e = append((*e)[:0], (*e)[over:]...)
	}
	return len(b), nil
}

// lastLines returns the errors in a command's output, in one line.
func lastLines(output []byte) string {
	const most = 2000
	var kept []string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "Warning:") && !strings.HasPrefix(line, "Run '") {
			kept = append(kept, strings.TrimPrefix(line, "Error: "))
		}
	}
	text := strings.Join(kept, "; ")
	return text[max(len(text)-most, 0):]
}

// Start starts a successor at a path, under the name that [Program.Find] returned with it. It asks for the sockets over its own connection. The successor
// is no child of this process but of its parent (CLONE_PARENT, clone(2)), the service manager above all, which so hears when it ends, as it would hear of
// this one.
func (p *Program) Start(path, name string) (*Child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "take-over"), os.NewFile(uintptr(pair[1]), "take-over")
	defer theirs.Close()
	nc, err := net.FileConn(ours) // duplicates the descriptor
	if closed := ours.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	defer null.Close()
	arguments := slices.Concat([]string{name, "serve"}, p.arguments(), []string{fmt.Sprintf("%s=fd:%d", Flag, successorFD)})
	child := &Child{Conn: nc.(*net.UnixConn), fd: -1}
	process, err := os.StartProcess(path, arguments, &os.ProcAttr{
		Dir: p.Directory, Env: p.environment(), Files: []*os.File{null, os.Stdout, os.Stderr, theirs},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_PARENT, PidFD: &child.fd},
	})
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("the program cannot be started: %w", err)
	}
	child.PID = process.Pid
	_ = process.Release() // its parent waits for it
	return child, nil
}

// lastWords is how long a successor that has heard that it does not take over may take to end by itself: so it gives back the servers' places
// that it has got.
const lastWords = 2 * time.Second

// End ends a successor that has not taken over, and returns when it has ended, or will.
func (c *Child) End() {
	if c.fd >= 0 && !c.endsWithin(lastWords) {
		_ = unix.PidfdSendSignal(c.fd, unix.SIGKILL, nil, 0)
	}
}

// endsWithin waits until the successor has ended, but no longer than limit, and reports whether it has.
func (c *Child) endsWithin(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; {
		left := max(time.Until(deadline), 0) + time.Millisecond - 1 // rounded up
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// Close forgets the successor, which continues.
func (c *Child) Close() {
	_ = c.Conn.Close()
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
		c.fd = -1
	}
}

// minders are programs that end their container when the process that they have started ends, whatever else runs in it.
var minders = []string{"tini", "docker-init", "dumb-init", "catatonit"}

// Possible returns an error if a successor that this process starts would end with it.
func Possible() error {
	if os.Getpid() == 1 {
		return errors.New("the proxy is the first process of its container, which ends with it: replace the container (docs/containers.md), or have another container on the same network and state directory run 'wsbouncer serve --take-over'")
	}
	if os.Getppid() == 1 {
		if name, err := os.ReadFile("/proc/1/comm"); err == nil && slices.Contains(minders, strings.TrimSpace(string(name))) {
			return fmt.Errorf("%s ends the container when this process ends: replace the container (docs/containers.md)", strings.TrimSpace(string(name)))
		}
	}
	return nil
}

// Connection returns the connection to the running process that it has given to this one, which it has started: text is the flag's value.
// ok is false if the value names none.
func Connection(text string) (nc *net.UnixConn, ok bool, err error) {
	number, ok := strings.CutPrefix(text, "fd:")
	if !ok {
		return nil, false, nil
	}
	if number != fmt.Sprint(successorFD) {
		return nil, true, fmt.Errorf("%s: invalid value %q: only a running proxy gives a descriptor to its successor", Flag, text)
	}
	// The descriptor may be anything, even one of the runtime's own: it is not touched before it is known to be the connection.
	if domain, err := unix.GetsockoptInt(successorFD, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		return nil, true, fmt.Errorf("%s: descriptor %d is no connection to a running proxy: only a running proxy gives one to its successor", Flag, successorFD)
	}
	unix.CloseOnExec(successorFD)
	file := os.NewFile(successorFD, "take-over")
	conn, err := net.FileConn(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", Flag, err)
	}
	return conn.(*net.UnixConn), true, nil
}
