package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// behind returns a setup that believes load balancers in these networks.
func behind(t testing.TB, header, proxy string, trusted ...string) setup {
	t.Helper()
	policy, err := origin.NewPolicy(trusted, header, proxy)
	if err != nil {
		t.Fatal(err)
	}
	return setup{
		Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo},
		Gate: func(o *admission.Options) { o.Origin = policy },
	}
}

const (
	proxy1 = "PROXY TCP4 192.0.2.7 10.0.0.5 4097 80\r\n"
	proxy2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f\xc0\x00\x02\x07\x0a\x00\x00\x05\x10\x01\x00\x50\x04\x00\x00" // the same client, and a TLV
	local2 = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// TestClientsBehindLoadBalancers has the test be a load balancer, and looks at the client that each session has.
func TestClientsBehindLoadBalancers(t *testing.T) {
	const trusted, stranger = "127.0.0.0/8", "10.0.0.0/8"
	for _, c := range []struct {
		name, header, proxy, trusted string
		prefix                       string // before the request
		lines                        []string
		want                         string // the client; empty for the connection's own address
	}{
		{"no one is trusted", origin.XForwardedFor, origin.ProxyOff, stranger, "", []string{"X-Forwarded-For: 192.0.2.9"}, ""},
		{"X-Forwarded-For", origin.XForwardedFor, origin.ProxyOff, trusted, "", []string{"X-Forwarded-For: 198.51.100.1, 192.0.2.9", "X-Forwarded-For: 127.0.0.9"}, "192.0.2.9"},
		{"no X-Forwarded-For", origin.XForwardedFor, origin.ProxyOff, trusted, "", []string{"Forwarded: for=192.0.2.9"}, ""},
		{"Forwarded", origin.Forwarded, origin.ProxyOff, trusted, "", []string{"X-Forwarded-For: 198.51.100.1", `Forwarded: for="[2001:db8::9]:4711";proto=https`}, "[2001:db8::9]:4711"},
		{"no header", origin.NoHeader, origin.ProxyOff, trusted, "", []string{"X-Forwarded-For: 192.0.2.9", "Forwarded: for=192.0.2.9"}, ""},
		{"PROXY 1", origin.XForwardedFor, origin.ProxyRequired, trusted, proxy1, nil, "192.0.2.7:4097"},
		{"PROXY 2", origin.XForwardedFor, origin.ProxyRequired, trusted, proxy2, nil, "192.0.2.7:4097"},
		{"PROXY 2, and a client that lies", origin.XForwardedFor, origin.ProxyRequired, trusted, proxy2, []string{"X-Forwarded-For: 198.51.100.1"}, "192.0.2.7:4097"},
		{"PROXY 2 of a trusted load balancer before it", origin.XForwardedFor, origin.ProxyRequired, trusted + ",192.0.2.0/24", proxy2, []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"PROXY 2, LOCAL", origin.XForwardedFor, origin.ProxyRequired, trusted, local2, nil, ""},
		{"PROXY 1, UNKNOWN", origin.XForwardedFor, origin.ProxyRequired, trusted, "PROXY UNKNOWN\r\n", nil, ""},
		{"an optional header", origin.XForwardedFor, origin.ProxyOptional, trusted, proxy1, nil, "192.0.2.7:4097"},
		{"an optional header that is not there", origin.XForwardedFor, origin.ProxyOptional, trusted, "", []string{"X-Forwarded-For: 192.0.2.9"}, "192.0.2.9"},
		{"a stranger without a required header", origin.XForwardedFor, origin.ProxyRequired, stranger, "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, behind(t, c.header, c.proxy, strings.Split(c.trusted, ",")...))
			r.Ready(1)
			// The first frames come right behind the request: what was read with the header must reach the server.
			p := r.Connect(c.prefix + wstest.UpgradeRequest("/v1/test", c.lines...) + string(wstest.ClientFrame(true, frame.Text, "early")))
			p.ExpectUpgrade()
			p.Expect(frame.Text, "early")
			p.Send(frame.Text, "hello")
			p.Expect(frame.Text, "hello")
			d, own := r.sessions.List()[0], p.LocalAddr().String()
			client, peer := c.want, own
			if c.want == "" {
				client, peer = own, ""
			}
			if d.Client.String() != client || d.Peer.Text() != peer {
				t.Errorf("the client is %s, by %q; want %s, by %q", d.Client, d.Peer.Text(), client, peer)
			}
			p.CloseNormally()
			a := r.Record()
			if logged := a["peer"]; a["client"].String() != client || (peer == "") != logged.Equal(a["nothing"]) || peer != "" && logged.String() != peer {
				t.Errorf("logged are client %s and peer %s; want %s and %q", a["client"], logged, client, peer)
			}
		})
	}
}

// The header arrives byte by byte, and then the request does.
func TestSlowProxyHeaders(t *testing.T) {
	for name, header := range map[string]string{"version 1": proxy1, "version 2": proxy2, "LOCAL": local2} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, behind(t, origin.NoHeader, origin.ProxyRequired, "127.0.0.1"))
			r.Ready(1)
			p := r.Connect("")
			if err := p.TCP().SetNoDelay(true); err != nil {
				t.Fatal(err)
			}
			for _, b := range []byte(header + wstest.UpgradeRequest("/v1/test")) {
				p.SendBytes([]byte{b})
			}
			p.ExpectUpgrade()
			p.Send(frame.Text, "hello")
			p.Expect(frame.Text, "hello")
		})
	}
}

// TestBadOrigins has connections that are refused, with the reason in the log and a count.
func TestBadOrigins(t *testing.T) {
	good := wstest.UpgradeRequest("/v1/test")
	for _, c := range []struct {
		name, proxy, trusted, sent string
		status                     int
		reason, client             string // of the log; client empty for the peer
	}{
		{"no header", origin.ProxyRequired, "127.0.0.1", good, 400, "the PROXY header is missing, which connections from this address must begin with", ""},
		{"version 3", origin.ProxyOptional, "127.0.0.1", strings.Replace(proxy2, "\x21", "\x31", 1) + good, 400, "bad PROXY header: its version is 3: use 1 or 2", ""},
		{"no address", origin.ProxyOptional, "127.0.0.1", "PROXY TCP4 s3cret 10.0.0.5 4097 80\r\n" + good, 400, "bad PROXY header: an address of it is invalid, or not of the family that it names", ""},
		{"a header that pauses", origin.ProxyOptional, "127.0.0.1", proxy2[:20], 408, "the PROXY header did not arrive in time", ""},
		{"a length that lies", origin.ProxyOptional, "127.0.0.1", strings.Replace(proxy2, "\x00\x0f", "\x0f\x0f", 1) + good, 408, "the PROXY header did not arrive in time", ""},
		{"a pause behind the header", origin.ProxyRequired, "127.0.0.1", proxy2, 408, "the request did not arrive in time", "192.0.2.7:4097"},
		{"no HTTP behind the header", origin.ProxyRequired, "127.0.0.1", proxy1 + "hello\r\n\r\n", 400, "malformed HTTP request: the first line is not a method, a target and a version", "192.0.2.7:4097"},
		{"two headers", origin.ProxyRequired, "127.0.0.1", proxy1 + proxy1 + good, 400, "unexpected PROXY header: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header", "192.0.2.7:4097"},
		{"a stranger, version 1", origin.ProxyRequired, "10.0.0.0/8", proxy1 + good, 400, "unexpected PROXY header: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header", ""},
		{"a stranger, version 2", origin.ProxyRequired, "10.0.0.0/8", proxy2 + good, 400, "unexpected PROXY header: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header", ""},
		{"a header although it is off", origin.ProxyOff, "127.0.0.1", proxy2 + good, 400, "unexpected PROXY header: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := behind(t, origin.XForwardedFor, c.proxy, c.trusted)
			believe := o.Gate
			o.Gate = func(o *admission.Options) {
				believe(o)
				if c.status == http.StatusRequestTimeout {
					o.Limits.HandshakeTimeout = 500 * time.Millisecond
				}
			}
			r := newRig(t, o)
			p, response := r.Request(c.sent)
			if response.StatusCode != c.status {
				t.Errorf("status %d; want %d", response.StatusCode, c.status)
			}
			if body, err := io.ReadAll(response.Body); err != nil || strings.Contains(string(body), "trusted-proxies") || strings.Contains(string(body), "s3cret") {
				t.Errorf("the answer is %q, %v", body, err)
			}
			p.ExpectEnd()
			if got := r.stats().Refused; got[c.status] != 1 || len(got) != 1 {
				t.Errorf("counted: %v", got)
			}
			line := <-r.Log.Lines
			for line.Message != "client refused" {
				line = <-r.Log.Lines
			}
			client, peer := c.client, p.LocalAddr().String()
			if client == "" {
				client, peer = peer, "<nil>"
			}
			if a := line.Attrs; a["reason"].String() != c.reason || a["client"].String() != client || a["peer"].String() != peer {
				t.Errorf("logged %v; want client %s, peer %s and reason %q", a, client, peer, c.reason)
			}
		})
	}
}

// A load balancer that only looks whether it can connect is no refused client, with a header or without.
func TestConnectionsThatSayNothing(t *testing.T) {
	r := newRig(t, behind(t, origin.XForwardedFor, origin.ProxyRequired, "127.0.0.1"))
	for _, sent := range []string{"", local2, proxy1, proxy1[:10], proxy2[:14]} {
		p := r.Connect(sent)
		if err := p.TCP().CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p.ExpectEnd()
	}
	if got := r.stats().Refused; len(got) != 0 {
		t.Errorf("refused: %v", got)
	}
	for {
		select {
		case line := <-r.Log.Lines:
			if line.Message == "client refused" {
				t.Errorf("logged %v", line)
			}
			continue
		default:
		}
		break
	}
}

// TestTrustChanges changes who is believed, for clients that come afterwards.
func TestTrustChanges(t *testing.T) {
	o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.1")
	o.Cap = 2
	r := newRig(t, o)
	r.Ready(2)
	first := r.Join("X-Forwarded-For: 192.0.2.9")
	r.Gate.SetOrigin(nil)
	second := r.Join("X-Forwarded-For: 192.0.2.9")
	clients := make(map[string]bool)
	for _, d := range r.sessions.List() {
		clients[d.Client.String()] = true
	}
	if !clients["192.0.2.9"] || !clients[second.LocalAddr().String()] {
		t.Errorf("the clients are %v", clients)
	}
	first.CloseNormally()
	second.CloseNormally()
}

// TestHashByClient has clients behind one load balancer be told apart.
func TestHashByClient(t *testing.T) {
	o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.1")
	o.Cap, o.Balance = 4, pool.Hash
	r := newRig(t, o)
	for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		r.Join("X-Forwarded-For: " + client)
	}
	keys := make(map[string]uint64)
	r.each(func(s *Session) {
		client := s.record.Client.String()
		if key, known := keys[client]; known && key != s.key {
			t.Errorf("%s has the keys %d and %d", client, key, s.key)
		}
		keys[client] = s.key
	})
	if len(keys) != 2 || keys["192.0.2.1"] == keys["192.0.2.2"] || keys["192.0.2.1"] != pool.HashKey("192.0.2.1") {
		t.Errorf("the keys are %v", keys)
	}
}

// A client that waits is listed with its own address.
func TestWaitingBehindALoadBalancer(t *testing.T) {
	o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.1")
	o.Queue = 1
	r := newRig(t, o)
	first := r.Join("X-Forwarded-For: 192.0.2.1")
	second := r.Connect(wstest.UpgradeRequest("/v1/test", "X-Forwarded-For: 2001:db8::2"))
	var seen map[string]string
	wstest.Eventually(t, "a client is listed that waits", func() bool {
		seen = make(map[string]string)
		for _, d := range r.sessions.List() {
			seen[d.State] = fmt.Sprint(d.Client, " by ", d.Peer.Text())
		}
		return seen[StateWaiting] != ""
	})
	if seen[StateWaiting] != "2001:db8::2 by "+second.LocalAddr().String() {
		t.Errorf("listed are %v", seen)
	}
	first.CloseNormally()
	second.ExpectUpgrade()
	second.CloseNormally()
}
