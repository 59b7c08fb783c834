package discovery

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/wsbouncer/wsbouncer/internal/testkit/dnstest"
)

// ask looks a name up at a real DNS server, and returns the servers as texts: ADDRESS:PORT, and the share unless it is 1.
func ask(t *testing.T, l *lookup) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	servers, err := l.ask(ctx)
	var texts []string
	for _, s := range servers {
		text := s.Address.String()
		if s.Share != 1 {
			text += fmt.Sprintf(" %g", s.Share)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts, err
}

func TestAddresses(t *testing.T) {
	server := dnstest.Start(t)
	server.Set("stt.test.", "10.0.0.2", "10.0.0.1", "10.0.0.1")
	server.Set("six.test.", "fd00::1", "fd00::2")
	server.Set("both.test.", "10.0.0.3", "fd00::3")
	server.Set("none.test.")
	server.Set("fails.test.", "10.0.0.4", "fd00::4")
	server.Fail("fails.test.", dns.RcodeServerFailure)
	server.Set("mapped.test.", "AAAA ::ffff:10.0.0.5")
	for _, c := range []struct {
		host, want, says string
	}{
		{"::1", "[::1]:2700", ""}, // package net treats a name in the file of hosts in the same way
		{"stt.test.", "10.0.0.1:2700 10.0.0.2:2700", ""},
		{"STT.test.", "10.0.0.1:2700 10.0.0.2:2700", ""},
		{"six.test.", "[fd00::1]:2700 [fd00::2]:2700", ""},
		{"both.test.", "10.0.0.3:2700", ""}, // a server that has both counts once
		{"none.test.", "", "lookup none.test. on " + server.Address() + ": no such host"},
		{"missing.test.", "", "lookup missing.test. on " + server.Address() + ": no such host"},
		{"mapped.test.", "", ""}, // the watch calls it a failure
		{"fails.test.", "", "on " + server.Address() + ": server misbehaving"},
	} {
		l := &lookup{resolver: NewResolver(server.Address()), question: Question{Host: c.host, Port: 2700}}
		got, err := ask(t, l)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %s %s", c.host, got, err, c.want, c.says)
		}
	}
}

// More addresses than a packet can hold come over TCP.
func TestTruncated(t *testing.T) {
	server := dnstest.Start(t)
	var all, want []string
	for n := range 300 {
		address := fmt.Sprintf("10.0.%d.%d", n/250, n%250+1)
		all, want = append(all, address), append(want, address+":2700")
	}
	server.Set("many.test.", all...)
	got, err := ask(t, &lookup{resolver: NewResolver(server.Address()), question: Question{Host: "many.test.", Port: 2700}})
	if slices.Sort(want); err != nil || !slices.Equal(got, want) || server.ByTCP() == 0 {
		t.Errorf("%d addresses, %v, %d queries over TCP", len(got), err, server.ByTCP())
	}
}

func TestSRV(t *testing.T) {
	const name = "_stt._tcp.test."
	server := dnstest.Start(t)
	server.Set("a.test.", "10.0.0.1")
	server.Set("b.test.", "10.0.0.2", "10.0.0.3")
	server.Set("six.test.", "fd00::1")
	server.Set("fails.test.", "10.0.0.9")
	server.Fail("fails.test.", dns.RcodeServerFailure)
	for _, c := range []struct {
		records    []string
		want, says string
	}{
		{[]string{"SRV 0 1 2700 a.test.", "SRV 0 1 2701 b.test."}, "10.0.0.1:2700 10.0.0.2:2701 10.0.0.3:2701", ""},
		{[]string{"SRV 0 1 2700 a.test.", "SRV 0 1 2701 a.test.", "SRV 0 1 9 six.test."}, "10.0.0.1:2700 10.0.0.1:2701 [fd00::1]:9", ""},
		{[]string{"SRV 10 1 2700 a.test.", "SRV 20 1 2701 b.test."}, "10.0.0.1:2700", ""},
		{[]string{"SRV 0 50 2700 a.test.", "SRV 0 25 2701 b.test."}, "10.0.0.1:2700 10.0.0.2:2701 0.5 10.0.0.3:2701 0.5", ""},
		{[]string{"SRV 0 0 2700 a.test.", "SRV 0 0 2701 six.test."}, "10.0.0.1:2700 [fd00::1]:2701", ""},
		{[]string{"SRV 0 0 2700 a.test.", "SRV 0 10 2701 six.test."}, "10.0.0.1:2700 0.1 [fd00::1]:2701", ""},
		{[]string{"SRV 0 1 2700 a.test.", "SRV 0 4 2700 a.test."}, "10.0.0.1:2700", ""}, // once, with the larger weight
		{[]string{"SRV 0 1 2700 a.test.", "SRV 0 1 2700 missing.test."}, "10.0.0.1:2700", ""},
		{[]string{"SRV 0 1 2700 a.test.", "SRV 0 1 2700 fails.test."}, "10.0.0.1:2700", ""},
		{[]string{"SRV 0 1 2700 missing.test."}, "", "lookup missing.test. on " + server.Address() + ": no such host"},
		{[]string{"SRV 0 1 2700 ."}, "", ""}, // there is no such service (RFC 2782)
		{[]string{"SRV 0 1 0 a.test."}, "", ""},
		{nil, "", "no such host"},
	} {
		server.Set(name, c.records...)
		l := &lookup{resolver: NewResolver(server.Address()), question: Question{Host: name, SRV: true}}
		got, err := ask(t, l)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, %v; want %s %s", c.records, got, err, c.want, c.says)
		}
	}
}

// A target that cannot be looked up for a while keeps its addresses; one that no longer exists loses them.
func TestTargetFails(t *testing.T) {
	const name = "_stt._tcp.test."
	server := dnstest.Start(t)
	server.Set("a.test.", "10.0.0.1")
	server.Set("b.test.", "10.0.0.2")
	server.Set(name, "SRV 0 1 2700 a.test.", "SRV 0 1 2700 b.test.")
	l := &lookup{resolver: NewResolver(server.Address()), question: Question{Host: name, SRV: true}}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "10.0.0.1:2700 10.0.0.2:2700"},
		{func() { server.Fail("b.test.", dns.RcodeServerFailure) }, "10.0.0.1:2700 10.0.0.2:2700"},
		{func() { server.Fail("a.test.", dns.RcodeRefused) }, "10.0.0.1:2700 10.0.0.2:2700"},
		{func() { server.Remove("b.test.") }, "10.0.0.1:2700"},
		{func() { server.Set("a.test.", "10.0.0.7") }, "10.0.0.7:2700"},
	} {
		c.change()
		if got, err := ask(t, l); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v, %v; want %s", got, err, c.want)
		}
	}
}

func TestUnfit(t *testing.T) {
	for text, fit := range map[string]bool{
		"10.0.0.1": true, "127.0.0.1": true, "::1": true, "fd00::1": true, "169.254.1.1": true, "0.0.0.0": false, "::": false, "224.0.0.1": false,
		"ff02::1": false, "255.255.255.255": false, "fe80::1": false, "fe80::1%eth0": true,
	} {
		if reason := unfit(netip.MustParseAddr(text)); (reason == "") != fit {
			t.Errorf("%s: %q", text, reason)
		}
	}
}

// manyTargets answers SRV queries with 40 targets, the first 20 of which are never answered for.
type manyTargets struct{}

func (manyTargets) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	var records []*net.SRV
	for n := range 40 {
		records = append(records, &net.SRV{Target: fmt.Sprintf("gpu-%02d.test.", n), Port: 2700, Weight: 1})
	}
	return "", records, nil
}

func (manyTargets) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	var n byte
	if _, err := fmt.Sscanf(host, "gpu-%02d.test.", &n); err != nil {
		return nil, err
	}
	if n < 20 {
		<-ctx.Done()
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, n})}, ctx.Err()
}

// Targets whose DNS server is silent do not hold up the others.
func TestSilentTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), lookupTimeout)
		defer cancel()
		l := &lookup{resolver: manyTargets{}, question: Question{Host: "_stt._tcp.test.", SRV: true}}
		if found, err := l.ask(ctx); len(found) != 20 || err != nil {
			t.Errorf("found %v, %v; want the 20 servers of the targets that are answered for", found, err)
		}
	})
}
