//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"testing"

	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestWeights gives backends parts of the clients by their weights.
func TestWeights(t *testing.T) {
	t.Parallel()
	one, two, none := startSim(t), startSim(t), startSim(t)
	p := startReady(t, "--backend", one.url+",weight=3", "--backend", two.url+",connections=12,warm=8", "--backend", none.url+",weight=0",
		"--profile", "echo", "--connections", "12", "--queue", "0")
	p.settle()
	for range 8 {
		dialRaw(t, p.url("/")).echo("hello")
	}
	for i, want := range []backendStats{{Leased: 6, Weight: 3, Warm: 12}, {Leased: 2, Weight: 1, Warm: 8}, {Leased: 0, Weight: 0, Warm: 12}} {
		if b := p.stats().Backends[i]; b.Leased != want.Leased || b.Weight != want.Weight || b.Warm != want.Warm {
			t.Errorf("backend %d: %+v; want %+v", i, b, want)
		}
	}
}

// TestStates has backends that get no clients: one that is draining or disabled is neither dialed nor missed.
func TestStates(t *testing.T) {
	t.Parallel()
	enabled, draining, disabled := startSim(t), startSim(t), startSim(t)
	p := startReady(t, "--backend", draining.url+",state=draining", "--backend", enabled.url, "--backend", disabled.url+",state=disabled",
		"--profile", "echo", "--connections", "4", "--queue", "0")
	p.settle()
	for range 4 {
		dialRaw(t, p.url("/")).echo("hello")
	}
	if _, err := tryRaw(t, p.url("/")); refusedWith(err) != 503 {
		t.Errorf("a client beyond the only enabled backend's cap got %v", err)
	}
	for i, state := range []string{"draining", "enabled", "disabled"} {
		b := p.stats().Backends[i]
		if b.State != state || b.Totals.Dialed > 0 != (state == "enabled") || b.Leased > 0 != (state == "enabled") {
			t.Errorf("backend %d is %+v; want %s", i, b, state)
		}
	}
	if status, body := p.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
}

// TestRoundRobin takes one backend after the other, however short the sessions are.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	one, two := startSim(t), startSim(t)
	p := startReady(t, "--backend", one.url+",weight=2", "--backend", two.url, "--profile", "echo", "--connections", "2", "--balance", "round-robin")
	p.settle()
	for range 12 {
		c := dialRaw(t, p.url("/"))
		c.echo("hello")
		c.close(1000, "")
		p.settle()
	}
	for i, want := range []uint64{8, 4} {
		if b := p.stats().Backends[i]; b.Totals.Leased != want {
			t.Errorf("%s served %d of 12 clients, want %d", b.URL, b.Totals.Leased, want)
		}
	}
}

// TestHash brings a device to the same backend again and again.
func TestHash(t *testing.T) {
	t.Parallel()
	greeting := func(name string) *wstest.LibraryServer {
		return wstest.StartLibraryServer(t, func(c *gorilla.Conn) error {
			if err := c.WriteMessage(gorilla.TextMessage, []byte(name)); err != nil {
				return err
			}
			return wstest.LibraryDiscard(c)
		})
	}
	one, two := greeting("one"), greeting("two")
	p := startReady(t, "--backend", one.URL, "--backend", two.URL, "--connections", "3", "--balance", "hash:header:X-Device")
	answers := make(map[string]int)
	for device := range 20 {
		before := ""
		for range 2 {
			p.settle()
			nc, err := net.Dial("tcp", p.address)
			if err != nil {
				t.Fatal(err)
			}
			_ = nc.SetDeadline(wstest.Deadline())
			if _, err := io.WriteString(nc, upgrade("/", fmt.Sprint("X-Device: ", device))); err != nil {
				t.Fatal(err)
			}
			c := &rawClient{t: t, nc: nc.(*net.TCPConn), r: readAnswer(t, nc)}
			name := string(c.receive().Payload)
			c.close(1000, "")
			if before != "" && name != before {
				t.Errorf("device %d came to %s and %s", device, before, name)
			}
			before = name
		}
		answers[before]++
	}
	if len(answers) != 2 { // all on one by chance: once in half a million
		t.Errorf("backends: %v", answers)
	}
}
