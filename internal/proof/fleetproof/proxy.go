//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// drainTimeout is the proxies' drain-timeout: longer than any session lasts.
const drainTimeout = time.Minute

// proxy is a proxy at one address, through several processes one after the other. One goroutine owns it.
type proxy struct {
	*kit.Proxy
	index     int
	arguments []string // further ones
	database  string
	admin     string
	watcher   *watcher

	lives    int
	states   int
	source   netip.Addr // from which the process dials servers
	replaced time.Time  // when the last upgrade had ended
}

func newProxy(index int, binary, directory, database string, w *watcher, arguments []string) (*proxy, error) {
	p := &proxy{index: index, database: database, watcher: w, arguments: arguments}
	var err error
	if p.Proxy, err = kit.NewProxy(binary, fmt.Sprintf("proxy-%d", index+1), directory); err != nil {
		return nil, err
	}
	return p, p.moveAway()
}

// otherTime has the kernel give a process another monotonic clock, which needs root. (A wall clock of its own is not to be had, and nothing depends on
// it.)
var otherTime = []string{"unshare", "-T", "--monotonic", "864000", "--boottime", "864000"}

// moveAway gives the next process a new state directory, and another address of the admin API.
func (p *proxy) moveAway() (err error) {
	p.states++
	p.State = filepath.Join(p.Directory, fmt.Sprintf("state-%d", p.states))
	p.admin, err = freeport.Address()
	return err
}

// start starts a process and returns when it answers.
func (p *proxy) start(ctx context.Context) error {
	p.lives++
	p.source = netip.AddrFrom4([4]byte{127, 1, byte(p.index), byte(p.lives%250 + 1)})
	p.watcher.began(p.source, fmt.Sprintf("%s (process %d)", p.Name, p.lives))
	arguments := []string{
		"--admin", p.admin, "--database", p.database, "--dial-from", p.source.String(), "--drain-timeout", drainTimeout.String(),
		"--proxy-name", p.Name,
		// All clients come at once, from one address.
		"--max-handshakes", "65536", "--handshake-timeout", "1m",
	}
	return p.Start(ctx, append(arguments, p.arguments...)...)
}

// kill ends the process with SIGKILL.
func (p *proxy) kill() {
	p.watcher.alive(p.source, false)
	p.Kill()
}

// freeze stops the process so that it does nothing, and proceed lets it continue.
func (p *proxy) freeze() error {
	p.watcher.alive(p.source, false)
	return p.Signal(syscall.SIGSTOP)
}

func (p *proxy) proceed() error {
	p.watcher.alive(p.source, true)
	return p.Signal(syscall.SIGCONT)
}

// takeReplaced returns the process that the last upgrade has replaced, which the caller ends.
func (p *proxy) takeReplaced() *kit.Process {
	old := p.Replaced[0]
	p.Replaced = p.Replaced[1:]
	return old
}
