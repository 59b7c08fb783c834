package origin

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "192.0.2.7": "192.0.2.7/32", "2001:db8::/32": "2001:db8::/32", "2001:db8::7": "2001:db8::7/128",
		"0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0", "::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:192.0.2.7": "192.0.2.7/32", "10.0.0.1/32": "10.0.0.1/32",
	} {
		if got, err := ParseNetwork(text); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for text, use := range map[string]string{
		"":                    "use a network such as 10.0.0.0/8 or an address",
		"lb.internal":         "names are not looked up",
		"lb.internal/8":       "names are not looked up",
		"10.0.0.0/33":         `use a prefix length from 0 to 32, such as 10.0.0.0/24, not "33"`,
		"10.0.0.0/":           "use a prefix length from 0 to 32",
		"10.0.0.0/08":         "use a prefix length from 0 to 32",
		"10.0.0.0/255.0.0.0":  "use a prefix length from 0 to 32",
		"2001:db8::/129":      "use a prefix length from 0 to 128, such as 2001:db8::/64",
		"10.0.0.1/8":          "use 10.0.0.0/8 for the network, or 10.0.0.1 for the one address",
		"2001:db8::7/32":      "use 2001:db8::/32 for the network, or 2001:db8::7 for the one address",
		"::ffff:10.0.0.1/104": "use 10.0.0.0/8 for the network, or 10.0.0.1 for the one address",
		"::ffff:10.0.0.0/64":  "use IPv4 networks in their own form",
		"10.0.0":              "use a network such as 10.0.0.0/8",
		"10.0.0.256":          "use a network such as 10.0.0.0/8",
		"10.0.0.1:80":         "use a network such as 10.0.0.0/8",
		" 10.0.0.1":           "use a network such as 10.0.0.0/8",
		"fe80::1%eth0":        "use an address without a zone: fe80::1",
		"fe80::%eth0/10":      "use an address without a zone: fe80::/10",
	} {
		if got, err := ParseNetwork(text); err == nil || !strings.Contains(err.Error(), use) || !strings.HasPrefix(err.Error(), "invalid network \""+text+"\": ") {
			t.Errorf("%q is %s, %v; want an error that says %q", text, got, err, use)
		}
	}
}

func TestContains(t *testing.T) {
	networks, err := ParseNetworks([]string{"10.0.0.0/8", "192.0.2.7", "fe80::/10"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"10.255.0.1": true, "::ffff:10.1.1.1": true, "11.0.0.1": false, "192.0.2.7": true, "192.0.2.8": false, "fe80::1%eth0": true, "::1": false,
	} {
		if got := networks.Contains(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t; want %t", text, got, want)
		}
	}
	if networks.Contains(netip.Addr{}) || Networks(nil).Contains(netip.MustParseAddr("10.0.0.1")) {
		t.Error("no address, or no network, contains one")
	}
}

func TestAddress(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"192.0.2.7:80":      &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 80},
		"192.0.2.7":         &net.TCPAddr{IP: net.ParseIP("192.0.2.7")},
		"[2001:db8::7]:80":  &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 80},
		"2001:db8::7":       &net.TCPAddr{IP: net.ParseIP("2001:db8::7")},
		"[fe80::1%eth0]:80": &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 80},
	} {
		at := AddressOf(a)
		text, err := at.MarshalText()
		if at.String() != want || string(text) != want || err != nil {
			t.Errorf("%v is %s, %s (%v); want %s", a, at, text, err, want)
		}
		var read Address
		if err := read.UnmarshalText(text); err != nil || read != at {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
	for _, a := range []net.Addr{nil, (*net.TCPAddr)(nil), &net.TCPAddr{}, &net.UnixAddr{Name: "/x"}, &net.UDPAddr{IP: net.IPv4zero}} {
		if at := AddressOf(a); at.IsValid() {
			t.Errorf("%v is %s", a, at)
		}
	}
	var none *Address
	if text, err := (Address{}).MarshalText(); len(text) != 0 || err != nil || none.Text() != "" {
		t.Errorf("no address is %q, %v, %q", text, err, none.Text())
	}
}
