//go:build linux

// Package child runs the programs of a benchmark as child processes, on free addresses of the loopback interface, and reads from
// /proc how much of the machine they use. It needs Linux. Its functions may be called from any goroutine.
package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// Process is a child that runs until it is stopped: a backend or a proxy. It leads a process group of its own, so that a Ctrl-C
// reaches it only through us, and nothing that it started outlives it.
type Process struct{ *kit.Process }

// Start starts a program with its arguments. The caller stops it.
func Start(argv []string) (*Process, error) {
	command, output := exec.Command(argv[0], argv[1:]...), new(kit.Output)
	command.Stdout, command.Stderr = output, output
	kit.Separate(command)
	command.SysProcAttr.Pdeathsig = syscall.SIGTERM // so that it can end its own children
	p, err := kit.Start(filepath.Base(argv[0]), command)
	return &Process{p}, err
}

// Stop asks the process to end, and then kills what is left of its group. It may be called again.
func (p *Process) Stop() {
	kit.StopAll(p.Process)
	p.KillGroup()
}

// FreeAddresses finds loopback addresses with free ports.
func FreeAddresses(count int) (all []string, err error) {
	for len(all) < count {
		address, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all, nil
}

// WaitFor calls the condition again and again until it returns nil. It gives up when the process or ctx has ended, and then returns why the
// condition did not hold last.
func WaitFor(ctx context.Context, p *Process, what string, condition func(context.Context) error) error {
	var last error
	err := p.Until(ctx, what, func() (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, last)
	}
	return nil
}

// StartSimulator starts a simulated server of a wsbouncer binary, and returns it and its address when it accepts connections. The
// caller stops it.
func StartSimulator(ctx context.Context, binary, protocol string, flags ...string) (_ *Process, address string, _ error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, "", err
	}
	p, err := Start(append([]string{binary, "sim", "--listen", address, "--protocol", protocol}, flags...))
	if err != nil {
		return nil, "", err
	}
	starting, cancel := context.WithTimeout(ctx, kit.StartTimeout)
	defer cancel()
	if err := p.Accepts(starting, address); err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, address, nil
}

// StartProxy starts wsbouncer with a new folder below a directory, and returns when it answers. The caller stops it with [kit.StopAll].
func StartProxy(ctx context.Context, binary, directory string, flags ...string) (*kit.Proxy, error) {
	folder, err := os.MkdirTemp(directory, "proxy-")
	if err != nil {
		return nil, err
	}
	p, err := kit.NewProxy(binary, "proxy", folder)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx, flags...); err != nil {
		p.KillAll()
		return nil, err
	}
	return p, nil
}

// Await waits until a proxy's statistics are as they should be.
func Await(ctx context.Context, p *kit.Proxy, what string, are func(*api.Stats) bool) error {
	return p.Until(ctx, what, func() (bool, error) {
		now, err := p.Stats(ctx)
		return err == nil && are(now), err
	})
}
