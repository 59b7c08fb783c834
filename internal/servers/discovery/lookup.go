package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
)

// maxTargets is how many targets of SRV records are looked up.
const maxTargets = 256

// lookup asks DNS for one name. It is owned by the goroutine of a watch.
type lookup struct {
	resolver Resolver
	question Question
	// targets are the addresses that the targets of SRV records had last.
	targets map[string][]netip.Addr
}

// ask asks once. The servers are without duplicates, in no order.
func (l *lookup) ask(ctx context.Context) ([]Server, error) {
	if l.question.SRV {
		return l.services(ctx)
	}
	addresses, err := l.addresses(ctx, l.question.Host)
	if err != nil {
		return nil, err
	}
	var list []Server
	for _, address := range addresses {
		list = append(list, Server{netip.AddrPortFrom(address, l.question.Port), 1})
	}
	return unique(list), nil
}

// addresses returns the IPv4 addresses of a host, or its IPv6 addresses if it has no others: a server that has both must not count as
// two, each with its own cap. A host has no IPv4 address only if DNS says so, not if it fails to answer.
func (l *lookup) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	addresses, err := l.resolver.LookupNetIP(ctx, "ip4", host)
	if isNotFound(err) || dialfrom.LacksFamily(err) || err == nil && len(addresses) == 0 {
		addresses, err = l.resolver.LookupNetIP(ctx, "ip6", host)
	}
	switch {
	case dialfrom.LacksFamily(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i, address := range addresses {
		addresses[i] = address.Unmap()
	}
	return addresses, nil
}

// services looks SRV records up, and the addresses of their targets. Of several priorities the first counts (RFC 2782: the one with the
// lowest number).
func (l *lookup) services(ctx context.Context) ([]Server, error) {
	_, records, err := l.resolver.LookupSRV(ctx, "", "", l.question.Host)
	if len(records) == 0 { // with records, an error says that some others are malformed
		return nil, err
	}
	records = preferred(records)
	found := l.hosts(ctx, records)
	heaviest := uint16(1)
	for _, r := range records {
		heaviest = max(heaviest, r.Weight)
	}
	var list []Server
	var failed error
	for _, r := range records {
		host := found[r.Target]
		if failed == nil {
			failed = host.err
		}
		for _, address := range host.addresses {
			// A weight of 0 gets "a very small chance of being selected" (RFC 2782), unless all are 0.
			share := float64(max(r.Weight, 1)) / float64(heaviest)
			list = append(list, Server{netip.AddrPortFrom(address, r.Port), share})
		}
	}
	if len(list) == 0 {
		return nil, failed
	}
	return unique(list), nil
}

// preferred returns the records of the first priority, in order, without those that say that there is no server.
func preferred(records []*net.SRV) []*net.SRV {
	first := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	records = slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool {
		return r.Priority != first || strings.Trim(r.Target, ".") == "" || r.Port == 0
	})
	slices.SortFunc(records, func(a, b *net.SRV) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	return records[:min(len(records), maxTargets)]
}

// host is what is known about a target.
type host struct {
	addresses []netip.Addr
	err       error
}

// hosts looks up the targets of records. A target whose lookup fails keeps the addresses that it had; one that does not exist has none.
func (l *lookup) hosts(ctx context.Context, records []*net.SRV) map[string]host {
	const atOnce = 8
	var mu sync.Mutex
	var running sync.WaitGroup
	found := make(map[string]host)
	turns := make(chan struct{}, atOnce)
	for i, r := range records {
		if i > 0 && records[i-1].Target == r.Target {
			continue
		}
		turns <- struct{}{}
		running.Go(func() {
			release := sync.OnceFunc(func() { <-turns })
			defer release()
			defer time.AfterFunc(turnGrace, release).Stop() // for the other targets
			addresses, err := l.addresses(ctx, r.Target)
			mu.Lock()
			defer mu.Unlock()
			found[r.Target] = host{addresses, err}
		})
	}
	running.Wait()
	before := l.targets
	l.targets = make(map[string][]netip.Addr)
	for target, h := range found {
		if h.err != nil && !isNotFound(h.err) {
			h.addresses = before[target]
			found[target] = h
		}
		l.targets[target] = h.addresses
	}
	return found
}

// unique drops servers that have the same address; the largest share counts.
func unique(list []Server) []Server {
	slices.SortFunc(list, func(a, b Server) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(b.Share, a.Share)) })
	return slices.CompactFunc(list, func(a, b Server) bool { return a.Address == b.Address })
}

func isNotFound(err error) bool {
	var failed *net.DNSError
	return errors.As(err, &failed) && failed.IsNotFound
}

// unfit returns why no server can have an address; empty if one can.
func unfit(address netip.Addr) string {
	switch {
	case address.IsUnspecified(), address.IsMulticast(), address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "no server can have this address"
	case address.Is6() && address.IsLinkLocalUnicast() && address.Zone() == "":
		return "a link-local address needs a zone"
	}
	return ""
}

// errNone is the error of an answer without a server that could be used.
func errNone(host string, leftOut int) error {
	if leftOut > 0 {
		return fmt.Errorf("lookup %s: none of its addresses can be used (%d left out)", host, leftOut)
	}
	return fmt.Errorf("lookup %s: no addresses", host)
}
