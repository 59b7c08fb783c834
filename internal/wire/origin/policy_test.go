package origin

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func at(text string) Address {
	var a Address
	if err := a.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return a
}

func policy(t testing.TB, header, proxy string, trusted ...string) *Policy {
	t.Helper()
	p, err := NewPolicy(trusted, header, proxy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestXForwardedFor has load balancers in 10.0.0.0/8 and 2001:db8:aa::/48 report clients.
func TestXForwardedFor(t *testing.T) {
	p := policy(t, XForwardedFor, ProxyOff, "10.0.0.0/8", "2001:db8:aa::/48")
	many := strings.TrimSuffix(strings.Repeat("10.0.0.2, ", 100), ", ")
	for _, c := range []struct {
		name, source, want string
		lines              []string
	}{
		{"nothing is said", "10.0.0.1:80", "10.0.0.1:80", nil},
		{"an empty field", "10.0.0.1:80", "10.0.0.1:80", []string{""}},
		{"commas only", "10.0.0.1:80", "10.0.0.1:80", []string{" , ,", ","}},
		{"one client", "10.0.0.1:80", "203.0.113.9", []string{"203.0.113.9"}},
		{"over IPv6", "[2001:db8:aa::1]:80", "2001:db8::9", []string{"2001:db8::9"}},
		{"with a port", "10.0.0.1:80", "203.0.113.9:4711", []string{"203.0.113.9:4711"}},
		{"IPv6 with a port", "10.0.0.1:80", "[2001:db8::9]:4711", []string{"[2001:db8::9]:4711"}},
		{"IPv6 in brackets", "10.0.0.1:80", "2001:db8::9", []string{"[2001:db8::9]"}},
		{"IPv4 in IPv6", "10.0.0.1:80", "203.0.113.9", []string{"::ffff:203.0.113.9"}},
		{"IPv4 in IPv6, trusted", "10.0.0.1:80", "203.0.113.9", []string{"203.0.113.9, ::ffff:10.0.0.7"}},
		{"a zone means nothing here", "10.0.0.1:80", "fe80::1", []string{"fe80::1%<b>"}},
		{"two load balancers", "10.0.0.1:80", "203.0.113.9", []string{"203.0.113.9, 10.0.0.2"}},
		{"a field for each", "10.0.0.1:80", "203.0.113.9", []string{"203.0.113.9", "10.0.0.2,10.0.0.3"}},
		{"empty elements", "10.0.0.1:80", "203.0.113.9", []string{"203.0.113.9,, 10.0.0.2 ,\t", ""}},
		{"a client that lies", "10.0.0.1:80", "203.0.113.9", []string{"192.0.2.1, 10.0.0.9, 203.0.113.9"}},
		{"a client that lies in its own field", "10.0.0.1:80", "203.0.113.9", []string{"192.0.2.1, 10.0.0.9", "203.0.113.9, 10.0.0.2"}},
		{"a stranger", "203.0.113.1:80", "203.0.113.1:80", []string{"192.0.2.1"}},
		{"a stranger that names a load balancer", "203.0.113.1:80", "203.0.113.1:80", []string{"192.0.2.1, 10.0.0.1"}},
		{"a client inside", "10.0.0.1:80", "10.0.0.77", []string{"10.0.0.77, 10.0.0.2"}},
		{"garbage", "10.0.0.1:80", "10.0.0.1:80", []string{"203.0.113.9, who knows"}},
		{"garbage before the last", "10.0.0.1:80", "10.0.0.2", []string{"203.0.113.9, \x00\xff, 10.0.0.2"}},
		{"unknown", "10.0.0.1:80", "10.0.0.2", []string{"203.0.113.9, unknown, 10.0.0.2"}},
		{"a name", "10.0.0.1:80", "10.0.0.1:80", []string{"localhost"}},
		{"a wrong port", "10.0.0.1:80", "10.0.0.1:80", []string{"203.0.113.9:65536"}},
		{"IPv4 in brackets", "10.0.0.1:80", "10.0.0.1:80", []string{"[203.0.113.9]"}},
		{"brackets only", "10.0.0.1:80", "10.0.0.1:80", []string{"[]"}},
		{"a loop", "10.0.0.1:80", "10.0.0.2", []string{"203.0.113.9, " + many}},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{"X-Forwarded-For": c.lines, "Forwarded": {"for=198.51.100.1"}, "X-Real-Ip": {"198.51.100.1"}}
			if got := p.Client(at(c.source), header); got != at(c.want) {
				t.Errorf("%s with %q: the client is %s; want %s", c.source, c.lines, got, c.want)
			}
			if c.lines != nil && len(header["X-Forwarded-For"]) != len(c.lines) {
				t.Errorf("the header has changed: %q", header)
			}
		})
	}
}

func TestForwarded(t *testing.T) {
	p := policy(t, Forwarded, ProxyOff, "10.0.0.0/8")
	for _, c := range []struct {
		name, want string
		lines      []string
	}{
		{"nothing is said", "10.0.0.1:80", nil},
		{"section 4", "192.0.2.60", []string{"for=192.0.2.60;proto=http;by=203.0.113.43"}},
		{"section 4: IPv6 in quotes", "[2001:db8:cafe::17]:4711", []string{`For="[2001:db8:cafe::17]:4711"`}},
		{"section 4: a list", "198.51.100.17", []string{"for=192.0.2.43, for=198.51.100.17"}},
		{"section 7.1: two fields", "192.0.2.43", []string{"for=192.0.2.43", `FOR="10.0.0.17";by=10.0.0.60;proto=http;host=example.com`}},
		{"section 6.1: unknown", "10.0.0.1:80", []string{"for=unknown"}},
		{"section 6.3: hidden", "10.0.0.1:80", []string{"for=192.0.2.43, for=_gazonk"}},
		{"hidden further away", "10.0.0.3", []string{"for=_mdn, for=10.0.0.3"}},
		{"a hidden port", "192.0.2.43", []string{`for="192.0.2.43:_http"`}},
		{"a hidden port, IPv6", "2001:db8::7", []string{`for="[2001:db8::7]:_http"`}},
		{"a port without quotes", "192.0.2.43:47011", []string{"for=192.0.2.43:47011"}},
		{"escapes", "192.0.2.43", []string{`for="192.0.2\.43"`}},
		{"IPv4 in IPv6", "192.0.2.43", []string{`for="[::ffff:192.0.2.43]"`}},
		{"spaces", "192.0.2.43", []string{" proto=http ;\tfor=192.0.2.43 ; by=10.0.0.9 ,"}},
		{"separators in quotes", "192.0.2.43", []string{`for=192.0.2.43;host="a,b;for=1.1.1.1\"";proto=http`}},
		{"no for", "10.0.0.1:80", []string{"for=192.0.2.43, proto=http"}},
		{"for twice", "10.0.0.1:80", []string{"for=192.0.2.43;for=192.0.2.44"}},
		{"nothing after for", "10.0.0.1:80", []string{"for"}},
		{"an open quote at the end", "10.0.0.1:80", []string{`for="192.0.2.43`}},
		{"a quote behind", "10.0.0.1:80", []string{`for=192.0.2.43"`}},
		{"a client that lies", "203.0.113.9", []string{"for=192.0.2.1, for=203.0.113.9"}},
		{"a client that opens a quote", "203.0.113.9", []string{`for="192.0.2.1, for=203.0.113.9`}},
		{"a client that opens a quote before quotes", "[2001:db8::9]:80", []string{`for="192.0.2.1, for="[2001:db8::9]:80"`}},
		{"a client that ends with a backslash", "2001:db8::9", []string{`for=\, for="[2001:db8::9]"`}},
		{"behind an open quote is nothing to be had", "10.0.0.2", []string{`for="192.0.2.1, for=192.0.2.2;", for=10.0.0.2`}},
		{"garbage", "10.0.0.1:80", []string{"\x00=;;\xff,\"\\"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{"Forwarded": c.lines, "X-Forwarded-For": {"198.51.100.1"}}
			if got := p.Client(at("10.0.0.1:80"), header); got != at(c.want) {
				t.Errorf("%q: the client is %s; want %s", c.lines, got, c.want)
			}
			if got := p.Client(at("203.0.113.1:80"), header); got != at("203.0.113.1:80") {
				t.Errorf("%q from a stranger: the client is %s", c.lines, got)
			}
		})
	}
}

// A policy that trusts no peer, or no header, uses the address of each client's connection.
func TestNothingIsBelieved(t *testing.T) {
	header := http.Header{"Forwarded": {"for=192.0.2.1"}, "X-Forwarded-For": {"192.0.2.1"}}
	for name, p := range map[string]*Policy{
		"no policy": nil, "no network": policy(t, XForwardedFor, ProxyRequired), "no header": policy(t, NoHeader, ProxyOff, "0.0.0.0/0"),
	} {
		if got := p.Client(at("10.0.0.1:80"), header); got != at("10.0.0.1:80") {
			t.Errorf("%s is trusted: the client is %s", name, got)
		}
		if may, must := p.ProxyHeader(at("10.0.0.1:80")); may || must {
			t.Errorf("%s is trusted: may a PROXY header be sent: %t, must it: %t", name, may, must)
		}
	}
	if p := policy(t, XForwardedFor, ProxyOff, "0.0.0.0/0"); p.Client(Address{}, header).IsValid() {
		t.Error("a connection without an address is trusted")
	}
}

func TestWhoSendsProxyHeaders(t *testing.T) {
	for proxy, want := range map[string][2]bool{ProxyOff: {}, ProxyOptional: {true, false}, ProxyRequired: {true, true}} {
		p := policy(t, NoHeader, proxy, "10.0.0.0/8")
		if may, must := p.ProxyHeader(at("10.0.0.1:80")); [2]bool{may, must} != want {
			t.Errorf("%s: may %t, must %t", proxy, may, must)
		}
		if may, must := p.ProxyHeader(at("203.0.113.1:80")); may || must {
			t.Errorf("%s, a stranger: may %t, must %t", proxy, may, must)
		}
	}
}

// A client that is not behind a load balancer pays nothing.
func TestDirectClientsCostNothing(t *testing.T) {
	p := policy(t, XForwardedFor, ProxyRequired, "10.0.0.0/8")
	header, source := http.Header{"X-Forwarded-For": {"192.0.2.1"}}, Address{netip.MustParseAddrPort("203.0.113.1:80")}
	if n := testing.AllocsPerRun(100, func() {
		p.ProxyHeader(source)
		p.Client(source, header)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
