//go:build linux

package realservers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// server is a server that runs. One goroutine owns it.
type server struct {
	*kit.Process
	address string // host and port
	path    string // and query
	log     string // path of what it has printed
}

// startTimeout is how long a server may take until it listens: those that load a model take some seconds.
const startTimeout = 2 * time.Minute

// start starts a server with arguments, and waits until it takes connections. Its log goes below a directory.
func (s *Server) start(ctx context.Context, e *environment, arguments []string, logs string) (*server, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	full := e.arguments(s, append(append([]string{}, arguments...), "--port", port))
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	running := &server{address: address, path: s.Path, log: filepath.Join(logs, s.name+"-"+port+".log")}
	log, err := os.Create(running.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(full[0], full[1:]...)
	command.Dir, command.Stdout, command.Stderr = s.folder, log, log
	command.Env = append(os.Environ(), "SOURCE="+e.source, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
	kit.Separate(command)
	if running.Process, err = kit.Start(s.name, command); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := running.Accepts(ctx, address); err != nil {
		running.KillGroup()
		return nil, fmt.Errorf("%w; its log is %s", err, running.log)
	}
	return running, nil
}

// arguments returns a command of a server's environment.
func (e *environment) arguments(s *Server, arguments []string) []string {
	if s.command != nil {
		return s.command(arguments)
	}
	return append([]string{e.python}, arguments...)
}

// url returns the URL of sessions at an address.
func (s *Server) url(address string) string { return "ws://" + address + s.Path }

// resident returns how many bytes of memory the server and the processes that it has started have.
func (s *server) resident() (bytes int64) {
	for _, pid := range append(childrenOf(s.PID()), s.PID()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // it may have ended
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			bytes += pages * int64(os.Getpagesize())
		}
	}
	return bytes
}

// childrenOf returns the ids of a process's children, and theirs.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), childrenOf(child)...)
			}
		}
	}
	return all
}

// lines returns how many lines the server has printed.
func (s *server) lines() int {
	text, _ := os.ReadFile(s.log)
	return bytes.Count(text, []byte("\n"))
}
