package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
)

// This file has the admin API of a process whose successor has taken over: the addresses of the settings lead to the successor, and
// this process answers at addresses of its own for as long as it drains. A process whose address refuses connections is taken for dead by others of its host.

// openApart opens the addresses, and answers there: a port that the system chooses at the host of --admin, and a socket with the
// process's id in its name beside --admin-socket. closeApart undoes it.
func (p *Proxy) openApart() error {
	if p.admin == nil {
		return nil
	}
	at, err := p.listenApart()
	if err != nil {
		for _, listener := range at {
			_ = listener.Close()
		}
		return fmt.Errorf("no address for the admin API of the old process while it drains: %w", err)
	}
	p.apart = admin.NewServer(p.admin.Handler, admin.Limits{}, p.log)
	var addresses []net.Addr
	for _, listener := range at {
		addresses = append(addresses, listener.Addr())
	}
	p.serveAdminAt(p.apart, at)
	p.apartAt.Store(&addresses)
	p.announce() // before the address of the settings is another process's
	return nil
}

func (p *Proxy) listenApart() (at []net.Listener, err error) {
	s := &p.settings
	if s.Admin != "" {
		host, _, err := net.SplitHostPort(s.Admin)
		if err != nil {
			return at, err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return at, err
		}
		at = append(at, p.adminSpeaksTLS(machine.KeepDescriptors(listener)))
	}
	if s.AdminSocket != "" {
		path := filepath.Join(filepath.Dir(s.AdminSocket), fmt.Sprintf(apartName, os.Getpid()))
		if len(path) > state.MaxSocketPath && s.Admin != "" {
			return at, nil // the other address will do
		}
		listener, err := listenSocket(path)
		if err != nil {
			return at, err
		}
		at = append(at, machine.KeepDescriptors(listener))
	}
	return at, nil
}

// apartName is the name of the socket at which the process with an id answers alone.
const apartName = "admin-%d.sock"

// apartPID returns the id of the process whose socket a directory's entry is; ok is false for other entries.
func apartPID(entry fs.DirEntry) (pid int, ok bool) {
	n, _ := fmt.Sscanf(entry.Name(), apartName, &pid)
	return pid, n == 1 && entry.Name() == fmt.Sprintf(apartName, pid) && entry.Type()&fs.ModeSocket != 0
}

// adminSockets returns the addresses at which the processes with this admin socket answer: that itself, which a successor may have, and those of
// processes that drain.
func (p *Proxy) adminSockets() (all []string) {
	own := p.settings.AdminSocket
	if own == "" {
		return nil
	}
	all = append(all, "unix:"+own)
	entries, _ := os.ReadDir(filepath.Dir(own))
	for _, entry := range entries {
		if _, ok := apartPID(entry); ok {
			all = append(all, "unix:"+filepath.Join(filepath.Dir(own), entry.Name()))
		}
	}
	return all
}

// sweepApart removes from a directory the sockets of processes that were killed while they drained: no process listens there, and no process has the
// id. It is called when a process starts.
func sweepApart(directory string) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return // the socket that is opened there next says why
	}
	for _, entry := range entries {
		pid, ok := apartPID(entry)
		if !ok {
			continue
		}
		if process, err := os.FindProcess(pid); err != nil || !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			continue // it may have bound the socket, and not listen yet
		}
		path := filepath.Join(directory, entry.Name())
		other, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = other.Close() // a process of another namespace, which counts processes by itself
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

// closeApart closes the addresses of openApart, if they are open.
func (p *Proxy) closeApart() {
	if p.apart != nil {
		p.apartAt.Store(nil)
		_ = p.apart.Close()
		p.apart = nil
	}
}

// OwnAddresses returns where this process alone answers as admin API, as commands take addresses, while its successor has the addresses of the settings;
// none before that.
func (p *Proxy) OwnAddresses() (all []string) {
	if at := p.apartAt.Load(); at != nil {
		for _, a := range *at {
			all = append(all, p.adminURL(a))
		}
	}
	return all
}

// adminGrace is how long requests at the addresses of the settings may still take when a successor answers there.
const adminGrace = 5 * time.Second

// retireAdmin ends the admin API at the addresses of the settings, at which a successor answers now. Requests that are being answered, such as the one
// for the upgrade, get some time, for which Close waits. The successor continues what is watched there.
func (p *Proxy) retireAdmin() {
	if p.admin == nil {
		return
	}
	p.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
		defer cancel()
		if err := p.admin.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			_ = p.admin.Close()
		}
	})
}

// closeAdmin ends the admin API.
func (p *Proxy) closeAdmin() {
	if p.admin == nil {
		return
	}
	p.hub.Close()
	_ = p.admin.Close()
	p.peers.Close()
	p.closeApart()
}
