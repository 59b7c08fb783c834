//go:build linux

package upgradeproof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
)

const (
	// startTimeout is how long a proxy may take to start, on a machine that is busy.
	startTimeout = 30 * time.Second
	// endTimeout is how long a proxy may take to end when its last session has.
	endTimeout = 20 * time.Second
)

// process is one process of the proxy. Each but the first was started by the one before, and is a child of this process nevertheless.
type process struct {
	pid   int
	ended bool
}

func (r *run) socket() string { return filepath.Join(r.o.Directory, "state", "admin.sock") }

// start starts the first process.
func (r *run) start(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.listen = l.Addr().String()
	_ = l.Close()
	log, err := os.OpenFile(filepath.Join(r.o.Directory, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(r.o.Binary, "serve", "--listen", r.listen, "--database", filepath.Join(r.o.Directory, "services.yaml"),
		"--state-directory", filepath.Join(r.o.Directory, "state"), "--log-level", "info", "--access-log", filepath.Join(r.o.Directory, "access.log"))
	command.Stdout, command.Stderr = log, log
	proxyprocess.Separate(command)
	if err := command.Start(); err != nil {
		return err
	}
	r.proxies = append(r.proxies, &process{pid: command.Process.Pid})
	_ = command.Process.Release() // this process waits for all of them in the same way
	admin := proxyprocess.NewAdmin(r.socket())
	for deadline := time.Now().Add(startTimeout); ; {
		stats, err := admin.Stats(ctx)
		if err == nil && len(stats.Backends) == len(r.servers) && stats.Backends[0].Idle > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the proxy is not ready after %v: %w", startTimeout, err)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

var (
	startedLine  = regexp.MustCompile(`is started as process (\d+)`)
	upgradedLine = regexp.MustCompile(`^Upgraded: process (\d+), version (\S+), serves`)
)

// command runs 'wsbouncer upgrade', and calls line with each line of its output. It returns what the command said last.
func (r *run) command(ctx context.Context, binary string, line func(string)) (last string, err error) {
	command := exec.CommandContext(ctx, r.o.Binary, "upgrade", "--admin", "unix:"+r.socket(), "--binary", binary, "--why", "proof")
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() {
		err := command.Wait()
		_ = writer.Close()
		ended <- err
	}()
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		last = lines.Text()
		line(last)
	}
	return last, <-ended
}

// upgrade has another program replace the running process.
func (r *run) upgrade(ctx context.Context, what, binary string) error {
	u := upgrade{what: what, at: time.Now()}
	last, err := r.command(ctx, binary, func(string) {})
	u.to = time.Now()
	u.took, u.from = u.to.Sub(u.at), u.to
	match := upgradedLine.FindStringSubmatch(last)
	if err != nil || match == nil {
		return fmt.Errorf("%s failed (%w): %s; the log is in %s", what, err, last, r.o.Directory)
	}
	pid, _ := strconv.Atoi(match[1])
	r.proxies = append(r.proxies, &process{pid: pid})
	r.upgrades = append(r.upgrades, u)
	r.say("%s after %v: %s", what, u.took.Round(time.Millisecond), last)
	r.memory("now")
	return nil
}

// failures has upgrades fail, after which the running process must serve as before.
func (r *run) failures(ctx context.Context) error {
	before := r.version(ctx)
	last, err := r.command(ctx, "/bin/false", func(string) {})
	if err == nil || !strings.Contains(last, "the running proxy goes on") {
		r.find("an upgrade to a program that fails ended with %v: %s", err, last)
	}
	r.say("a program that fails: %s", last)
	killed := 0
	last, err = r.command(ctx, r.o.Other, func(line string) {
		if match := startedLine.FindStringSubmatch(line); match != nil {
			killed, _ = strconv.Atoi(match[1])
		}
		if strings.Contains(line, "asks for the sockets") {
			_ = unix.Kill(killed, unix.SIGKILL)
		}
	})
	if err == nil || !strings.Contains(last, "the running proxy goes on") {
		r.find("an upgrade whose new process was killed in the middle ended with %v: %s", err, last)
	}
	r.say("killed in the middle: %s", last)
	if killed > 0 {
		_, _ = unix.Wait4(killed, nil, 0, nil)
	}
	if after := r.version(ctx); after != before || after == "" {
		r.find("after upgrades that failed, version %q serves; it was %q", after, before)
	}
	return nil
}

// version returns the version of the process that serves; empty if none answers.
func (r *run) version(ctx context.Context) string {
	stats, err := proxyprocess.NewAdmin(r.socket()).Stats(ctx)
	if err != nil {
		return ""
	}
	return stats.Version
}

// memory says how much memory the processes take.
func (r *run) memory(when string) {
	var words []string
	for i, p := range r.proxies {
		if p.ended || r.reap(p) {
			continue
		}
		words = append(words, fmt.Sprintf("%d: %.1f MiB", i+1, resident(p.pid)))
	}
	r.say("resident memory %s: %s", when, strings.Join(words, ", "))
}

// resident returns how many MiB of memory a process has.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// reap reports whether a process has ended, and finds a fault in one that did not end with status 0.
func (r *run) reap(p *process) bool {
	if p.ended {
		return true
	}
	var status unix.WaitStatus
	pid, err := unix.Wait4(p.pid, &status, unix.WNOHANG, nil)
	if pid != p.pid {
		if errors.Is(err, unix.ECHILD) {
			r.find("process %d is no child of the one that started the first", p.pid)
			p.ended = true
		}
		return p.ended
	}
	p.ended = true
	if !status.Exited() || status.ExitStatus() != 0 {
		r.find("process %d ended with %v (signal %v)", p.pid, status.ExitStatus(), status.Signal())
	}
	return true
}

// ends expects that all processes but the last end by themselves, now that no session is left, and the last when it is told to.
func (r *run) ends(ctx context.Context) error {
	deadline := time.Now().Add(endTimeout)
	old := r.proxies[:len(r.proxies)-1]
	for {
		left := 0
		for _, p := range old {
			if !r.reap(p) {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			r.find("%d processes without sessions have not ended after %v", left, endTimeout)
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	r.say("all %d processes that were replaced have ended with status 0", len(old))
	last := r.proxies[len(r.proxies)-1]
	_ = unix.Kill(last.pid, unix.SIGTERM)
	for deadline := time.Now().Add(endTimeout); !r.reap(last); {
		if time.Now().After(deadline) {
			r.find("the last process has not ended after %v", endTimeout)
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// killAll ends what is left.
func (r *run) killAll() {
	for _, p := range r.proxies {
		if !p.ended {
			_ = unix.Kill(p.pid, unix.SIGKILL)
			_, _ = unix.Wait4(p.pid, nil, 0, nil)
		}
	}
}
