package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

// clock is a clock that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newGuard(t *testing.T, text string) (*Guard, *clock, *bytes.Buffer) {
	t.Helper()
	failures, err := limits.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	c, log := &clock{time.Unix(1e9, 0)}, new(bytes.Buffer)
	return NewGuard(failures, slog.New(slog.NewTextHandler(log, nil)), c.now), c, log
}

func TestGuard(t *testing.T) {
	g, c, log := newGuard(t, "20/m")
	bad, good := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	for i := range 20 {
		if wait := g.Wait(bad); wait != 0 {
			t.Fatalf("attempt %d waits %v", i, wait)
		}
		g.Failed(bad, "stt")
	}
	if wait := g.Wait(bad); wait != 3*time.Second {
		t.Errorf("after 20 failures a client waits %v", wait)
	}
	if wait := g.Wait(good); wait != 0 {
		t.Errorf("another client waits %v", wait)
	}
	if stats := g.Stats(); stats.Blocked != 1 || stats.Suspects != 1 {
		t.Errorf("%+v", stats)
	}
	for range 100 { // attempts that ran at the same time
		g.Failed(bad, "stt")
	}
	if wait := g.Wait(bad); wait != 3*time.Second {
		t.Errorf("after 120 failures a client waits %v", wait)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "192.0.2.7") {
		t.Errorf("the log says %q", log)
	}
	c.at = c.at.Add(3 * time.Second)
	if wait := g.Wait(bad); wait != 0 {
		t.Errorf("3 s later it waits %v", wait)
	}
	g.Failed(bad, "stt")
	if wait := g.Wait(bad); wait != 3*time.Second {
		t.Errorf("after one more failure it waits %v", wait)
	}
	c.at = c.at.Add(time.Minute)
	if stats := g.Stats(); stats.Suspects != 0 || len(g.suspects) != 0 {
		t.Errorf("a minute later: %+v, %d remembered", stats, len(g.suspects))
	}
}

// An IPv6 client has a whole network of addresses for itself.
func TestGuardOfNetworks(t *testing.T) {
	g, _, _ := newGuard(t, "2/m")
	g.Failed(netip.MustParseAddr("2001:db8::1"), "stt")
	g.Failed(netip.MustParseAddr("2001:db8::ffff:2"), "stt")
	if g.Wait(netip.MustParseAddr("2001:db8::3")) == 0 {
		t.Error("another address of the network does not wait")
	}
	if g.Wait(netip.MustParseAddr("2001:db8:0:1::3")) != 0 {
		t.Error("another network waits")
	}
	g.Failed(netip.MustParseAddr("::ffff:192.0.2.1"), "stt")
	g.Failed(netip.MustParseAddr("192.0.2.1"), "stt")
	if g.Wait(netip.MustParseAddr("192.0.2.1")) == 0 {
		t.Error("an IPv4 address in the form of IPv6 is another one")
	}
	g.Failed(netip.Addr{}, "stt")
	if g.Wait(netip.Addr{}) != 0 {
		t.Error("a client whose address is not known waits")
	}
}

// A flood of addresses takes no more memory, and does not wash away addresses over the limit.
func TestGuardIsBounded(t *testing.T) {
	g, c, _ := newGuard(t, "4/h")
	bad := netip.MustParseAddr("198.51.100.1")
	for range 4 {
		g.Failed(bad, "stt")
	}
	for i := range maxSuspects + 5000 {
		g.Failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), "stt")
	}
	if len(g.suspects) > maxSuspects {
		t.Errorf("%d addresses are remembered", len(g.suspects))
	}
	if g.Wait(bad) == 0 {
		t.Error("the flood has washed away the worst of all")
	}
	c.at = c.at.Add(2 * time.Hour)
	g.Failed(netip.MustParseAddr("198.51.100.2"), "stt")
	if len(g.suspects) > maxSuspects-sampled+1 {
		t.Errorf("of addresses that are forgiven, %d are remembered", len(g.suspects))
	}
}

func TestGuardThatIsOff(t *testing.T) {
	g, _, log := newGuard(t, "0")
	bad := netip.MustParseAddr("192.0.2.7")
	for range 1000 {
		g.Failed(bad, "stt")
	}
	if g.Wait(bad) != 0 || len(g.suspects) != 0 || log.Len() > 0 {
		t.Error("a guard that is off remembers")
	}
	g.SetRate(limits.Rate{N: 1, Per: time.Hour})
	g.Failed(bad, "stt")
	if g.Wait(bad) == 0 {
		t.Error("the new rate does not hold")
	}
	g.SetRate(limits.Rate{})
	if g.Wait(bad) != 0 {
		t.Error("it is still on")
	}
}

// Addresses that were blocked for long are blocked for no longer than a new rate blocks.
func TestGuardOfNewRate(t *testing.T) {
	g, _, _ := newGuard(t, "4/h")
	bad := netip.MustParseAddr("192.0.2.7")
	for range 4 {
		g.Failed(bad, "stt")
	}
	if wait := g.Wait(bad); wait != 15*time.Minute {
		t.Errorf("after 4 failures a client waits %v", wait)
	}
	g.SetRate(limits.Rate{N: 20, Per: time.Minute})
	if wait := g.Wait(bad); wait != 3*time.Second {
		t.Errorf("at the new rate it waits %v", wait)
	}
}

func BenchmarkGuard(b *testing.B) {
	g := NewGuard(limits.Rate{N: 20, Per: time.Minute}, slog.New(slog.DiscardHandler), time.Now)
	for i := range maxSuspects {
		g.Failed(netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i>>8, i&255)), "stt")
	}
	client := netip.MustParseAddr("192.0.2.7")
	b.ReportAllocs()
	for b.Loop() {
		g.Wait(client)
	}
}
