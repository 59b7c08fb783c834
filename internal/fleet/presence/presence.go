// Package presence proves that processes of a fleet have ended, so that their places can go to others.
//
// A proof must be right, since a proxy that runs on would exceed servers' caps. There are three:
//
//   - Each process holds the lock of a file in the folder fleet of its state directory until it ends, whichever way. Another process with
//     the same state directory that gets this lock knows. Which state directory it is says [Presence.Instance].
//   - A proxy's admin API listens until its last connection is closed. So a proxy has ended whose address refuses connections, if this
//     process has reached that very proxy at the address before, and the kernel under both ([Host]) says that it is an address of this host at
//     which no socket listens. From elsewhere, a refusal proves nothing unless an operator says so ([Options.AnyRefusal]): firewalls reject,
//     Services of Kubernetes without endpoints do, and addresses move to other hosts. A time-out never proves anything.
//   - A proxy of the same host is no longer seen, and this process itself listens at the address that was the other's.
//
// Each is looked at twice, some time apart, since the system closes the files of a process that ends one after the other.
package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// Header is the header in which a proxy's /healthz says the process's ID, so that others know whom they have reached.
const Header = "X-Wsbouncer-Proxy"

// Options are what presence is made with.
type Options struct {
	ID        fleet.ID
	Directory string // state directory, which must exist; empty for none
	// OtherLedgers: processes of other ledgers may hold locks in the directory, too.
	OtherLedgers bool
	// Own returns the URL of this process's admin API as others reach it; empty for none, or if another process opened its listener.
	Own func() string
	// AnyRefusal: also from another host, an address refuses connections only if its proxy has ended.
	AnyRefusal bool
	Log        *slog.Logger
}

// Presence is how this process shows that it lives, and finds out which others do. Dead and Meet may be called for several
// proxies at a time, and Tidy while neither runs; all other methods may be called from any goroutine.
type Presence struct {
	o    Options
	host string
	*directory
	client *http.Client
	pause  time.Duration // between two looks

	mu  sync.Mutex
	met map[fleet.ID]meeting // guarded by mu
}

// meeting is what came of reaching a proxy.
type meeting struct {
	address string // at which it was reached; empty for none
	tried   time.Time
}

const (
	// pause is longer than the system needs to close the connections of a process that ends.
	pause = 300 * time.Millisecond
	// again is how long Meet waits before it tries a proxy again, and soon if another process answered: the one that it takes over from.
	again = 10 * time.Second
	soon  = time.Second
)

// Open returns the presence of this process. If the state directory cannot be used, its processes cannot prove each other's end by locks;
// that is logged, and no error.
func Open(o Options) *Presence {
	p := &Presence{
		o: o, host: Host(), directory: new(directory), pause: pause, met: make(map[fleet.ID]meeting),
		client: &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: anyCertificate(), Proxy: nil},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if o.Directory == "" {
		return p
	}
	d, err := openDirectory(o.Directory, o.ID)
	if err != nil {
		o.Log.Warn("a proxy with the same state directory cannot prove that this one has ended", "reason", err)
	}
	if d != nil {
		p.directory = d
		p.otherLedgers = o.OtherLedgers
	}
	return p
}

// Close gives up the lock of this process. If the process has left its ledger, it removes the lock's file, too; otherwise that stays, and proves to
// the others with the same state directory that the process has ended. Call it when the process has no connections to servers left.
func (p *Presence) Close(left bool) { p.directory.close(left) }

// Instance identifies the state directory; empty if there is none that can be used, or as long as the disk has not taken its identity.
func (p *Presence) Instance() string {
	if instance := p.instance.Load(); instance != nil {
		return *instance
	}
	return ""
}

// hasLock reports whether a proxy has the same state directory, so that its lock there says whether it has ended.
func (p *Presence) hasLock(m *fleet.Member) bool {
	instance := p.Instance()
	return instance != "" && m.Instance == instance
}

// Hold keeps a process with the same state directory, which lives, from being proven dead, here and by others, until release is called or this process
// ends.
func (p *Presence) Hold(id fleet.ID) (release func(), err error) { return p.hold(p.o.ID, id) }

// Alone reports whether no other process with the same state directory runs. It is false if that cannot be known.
func (p *Presence) Alone() bool { return p.alone(p.o.ID) }

// Dead reports whether a proxy is proven dead, and by what. suspected: it was not seen for some time; otherwise only those proofs are
// looked for that need no network.
func (p *Presence) Dead(ctx context.Context, m fleet.Member, suspected bool) (how string, dead bool) {
	how, dead = p.look(ctx, &m, suspected)
	if !dead {
		return "", false
	}
	timer := time.NewTimer(p.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return "", false
	}
	return p.look(ctx, &m, suspected)
}

func (p *Presence) look(ctx context.Context, m *fleet.Member, suspected bool) (how string, dead bool) {
	if p.hasLock(m) { // then the lock says it, and nothing else may
		return "it no longer holds its lock in the state directory", p.ended(m.ID)
	}
	if m.Address == "" || !suspected {
		return "", false
	}
	if p.isHere(m) && p.o.Own != nil && sameAddress(m.Address, p.o.Own()) {
		return fmt.Sprintf("this process listens at its address %s", m.Address), true
	}
	if !p.isHere(m) && !p.o.AnyRefusal || !p.hasMet(m) {
		return "", false
	}
	return fmt.Sprintf("its address %s refuses connections", m.Address), p.refuses(ctx, m)
}

// Meet reaches a proxy that lives at its address, so that it proves something if that refuses later. It tries again after some time.
func (p *Presence) Meet(ctx context.Context, m fleet.Member) {
	if m.Address == "" || p.hasLock(&m) || !p.reachable(&m) || !p.isHere(&m) && !p.o.AnyRefusal {
		return
	}
	p.mu.Lock()
	known := p.met[m.ID]
	p.mu.Unlock()
	if known.address == m.Address || time.Since(known.tried) < again {
		return
	}
	known = meeting{tried: time.Now()}
	switch p.whoAnswers(ctx, &m) {
	case string(m.ID):
		known.address = m.Address
	case "":
	default:
		known.tried = known.tried.Add(soon - again)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[m.ID] = known
}

func (p *Presence) hasMet(m *fleet.Member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met[m.ID].address == m.Address && p.reachable(m)
}

// Tidy removes the locks of processes that have ended and are no longer in a ledger.
func (p *Presence) Tidy(members []fleet.Member) {
	there := make(map[fleet.ID]bool, len(members))
	for i := range members {
		there[members[i].ID] = true
	}
	p.mu.Lock()
	maps.DeleteFunc(p.met, func(id fleet.ID, _ meeting) bool { return !there[id] })
	p.mu.Unlock()
	p.tidy(there)
}

// isHere reports whether a proxy runs under the same kernel as this process, and in the same network namespace.
func (p *Presence) isHere(m *fleet.Member) bool {
	return m.Host == p.host && p.host != "" && machine.Boot() != ""
}

// reachable reports whether an address means the same host here as for the proxy that names it.
func (p *Presence) reachable(m *fleet.Member) bool {
	host := hostOf(m.Address)
	ip := net.ParseIP(host)
	loopback := strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
	return host != "" && (!loopback || p.isHere(m))
}

// whoAnswers returns the ID of the process that answers at a proxy's address; empty if none does.
func (p *Presence) whoAnswers(ctx context.Context, m *fleet.Member) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.Address, "/")+"/healthz", nil)
	if err != nil {
		return ""
	}
	response, err := p.client.Do(request)
	if err != nil {
		return ""
	}
	_ = response.Body.Close()
	return response.Header.Get(Header)
}

// refuses reports whether the proxy's address refuses connections, and, if the proxy is one of this host, whether the kernel says that no socket
// listens there: at all of them, if it is a name.
func (p *Presence) refuses(ctx context.Context, m *fleet.Member) bool {
	u, err := url.Parse(m.Address)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil || len(addresses) == 0 {
		return false
	}
	for _, address := range addresses {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			_ = conn.Close()
			return false
		}
		if !errors.Is(err, refused) || p.isHere(m) && !silent(address, port) {
			return false
		}
	}
	return true
}

// silent reports whether an IP address is one of this host at whose port no socket listens, whatever a firewall says about that.
func silent(address, port string) bool {
	ip := net.ParseIP(address)
	number, err := strconv.Atoi(port)
	return ip != nil && err == nil && isOwn(ip) && !listens(ip, number)
}

// isOwn reports whether an address is one of this host.
func isOwn(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// sameAddress reports whether two URLs of admin APIs name the same IP address and port. Names do not: they may lead to many.
func sameAddress(a, b string) bool {
	u, err := url.Parse(a)
	if err != nil || b == "" {
		return false
	}
	v, err := url.Parse(b)
	return err == nil && u.Port() != "" && u.Host == v.Host && net.ParseIP(u.Hostname()) != nil
}
