package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a resolver that answers what the test says.
type scripted struct {
	mu      sync.Mutex
	answers []netip.Addr // guarded by mu
	err     error        // guarded by mu
	hangs   bool         // guarded by mu: a lookup lasts until its context ends
	asked   []time.Time  // guarded by mu: when
	at      int          // guarded by mu: lookups that run
	most    int          // guarded by mu: the most of them at once
}

func (s *scripted) say(err error, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.err = nil, err
	for _, a := range addresses {
		s.answers = append(s.answers, netip.MustParseAddr(a))
	}
}

func (s *scripted) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *scripted) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	s.at++
	s.most = max(s.most, s.at)
	hangs := s.hangs || strings.HasPrefix(host, "silent-")
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
	} else {
		time.Sleep(time.Millisecond) // of the bubble
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at--
	if hangs {
		return nil, ctx.Err()
	}
	return slices.Clone(s.answers), s.err
}

func (s *scripted) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, errors.New("no SRV records are expected")
}

// rig is a Discovery in a bubble of synctest.
type rig struct {
	*Discovery
	resolver *scripted
	log      *bytes.Buffer
	changes  atomic.Int64
}

func newRig(t *testing.T, change func(*Options)) *rig {
	r := &rig{resolver: new(scripted), log: new(bytes.Buffer)}
	o := Options{
		Resolver: r.resolver, Changed: func() { r.changes.Add(1) },
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
	if change != nil {
		change(&o)
	}
	r.Discovery = New(o)
	t.Cleanup(r.Close)
	return r
}

var stt = Question{Host: "stt.test", Port: 2700}

// watch watches stt under the name gpu.
func (r *rig) watch(interval time.Duration) { r.Watch(map[string]Watched{"gpu": {stt, interval}}) }

// expect waits, and checks what the servers are.
func (r *rig) expect(t *testing.T, after time.Duration, want ...string) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	servers, _ := r.Servers("gpu", stt)
	var got []string
	for _, s := range servers {
		got = append(got, s.Address.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("servers are %v; want %v", got, want)
	}
}

// The first lookup is at once; the others are an interval apart, plus or minus a fifth, and not all alike.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1")
		begun := time.Now()
		r.watch(10 * time.Second)
		time.Sleep(10 * time.Minute)
		times := r.resolver.times()
		if times[0] != begun || len(times) < 50 || len(times) > 70 {
			t.Fatalf("%d lookups in ten minutes, the first after %v", len(times), times[0].Sub(begun))
		}
		distinct := make(map[time.Duration]bool)
		for i := range times[1:] {
			apart := times[i+1].Sub(times[i])
			distinct[apart] = true
			if apart < 8*time.Second || apart > 12*time.Second+time.Millisecond {
				t.Errorf("two lookups are %v apart", apart)
			}
		}
		if len(distinct) < len(times)/2 {
			t.Errorf("the pauses are alike: %d different ones of %d", len(distinct), len(times))
		}
	})
}

// Hundreds of names are looked up a few at a time, and later not at the same moment.
func TestManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1")
		wanted := make(map[string]Watched)
		for n := range 200 {
			wanted[fmt.Sprint("gpu-", n)] = Watched{Question{Host: fmt.Sprint("stt-", n), Port: 1}, 10 * time.Second}
		}
		r.Watch(wanted)
		time.Sleep(time.Second)
		synctest.Wait()
		r.resolver.mu.Lock()
		if n := len(r.resolver.asked); n != 200 || r.resolver.most != maxLookups {
			t.Errorf("%d lookups, at most %d at once", n, r.resolver.most)
		}
		r.resolver.mu.Unlock()
		time.Sleep(20 * time.Second)
		perSecond := make(map[int64]int)
		for _, at := range r.resolver.times()[200:] {
			perSecond[at.Unix()]++
		}
		for second, n := range perSecond {
			if n > 120 { // of 200 within 4 s, 50 are expected
				t.Errorf("%d lookups in second %d", n, second)
			}
		}
	})
}

// Many names whose DNS server is silent do not hold up the others, neither at the start nor later.
func TestSilentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1")
		wanted := make(map[string]Watched)
		for n := range 200 {
			wanted[fmt.Sprint("dead-", n)] = Watched{Question{Host: fmt.Sprint("silent-", n), Port: 1}, time.Second}
		}
		r.Watch(wanted)
		time.Sleep(time.Minute)
		wanted["gpu"] = Watched{stt, time.Second}
		r.Watch(wanted)
		r.expect(t, 10*time.Second, "10.0.0.1:2700")
		before, _ := r.Status("gpu")
		time.Sleep(2 * time.Minute)
		if now, _ := r.Status("gpu"); now.Lookups < before.Lookups+10 {
			t.Errorf("%d lookups in two minutes", now.Lookups-before.Lookups)
		}
	}) // Close ends the lookups that hang
}

// Failed and empty answers keep the servers, and are logged once when they begin and once when they end.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1", "10.0.0.2")
		r.watch(time.Second)
		r.expect(t, 100*time.Millisecond, "10.0.0.1:2700", "10.0.0.2:2700")
		r.resolver.say(&net.DNSError{Err: "no such host", Name: "stt.test", IsNotFound: true})
		r.expect(t, time.Minute, "10.0.0.1:2700", "10.0.0.2:2700")
		now, _ := r.Status("gpu")
		if now.Failing.IsZero() || now.Reason != "lookup stt.test: no such host" || now.Servers != 2 || now.Failures < 40 || now.Lookups != now.Failures+1 {
			t.Errorf("the status is %+v", now)
		}
		r.resolver.say(nil) // no error, and nothing else
		r.expect(t, time.Minute, "10.0.0.1:2700", "10.0.0.2:2700")
		r.resolver.say(errors.New("i/o timeout"))
		r.expect(t, time.Minute, "10.0.0.1:2700", "10.0.0.2:2700")
		r.resolver.say(nil, "0.0.0.0")
		r.expect(t, time.Minute, "10.0.0.1:2700", "10.0.0.2:2700")
		if now, _ = r.Status("gpu"); now.Reason != "lookup stt.test: none of its addresses can be used (1 left out)" {
			t.Errorf("the reason is %q", now.Reason)
		}
		r.resolver.say(nil, "10.0.0.2")
		r.expect(t, time.Minute, "10.0.0.2:2700")
		if now, _ = r.Status("gpu"); !now.Failing.IsZero() || now.Reason != "" || len(now.LeftOut) > 0 {
			t.Errorf("the status is %+v", now)
		}
		lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
		for i, want := range []string{
			`level=INFO msg="DNS name found" backend=gpu name=stt.test servers=2`,
			`level=WARN msg="DNS lookup failed, the servers that are known stay" backend=gpu name=stt.test servers=2 reason="lookup stt.test: no such host"`,
			`level=WARN msg="DNS answer has addresses that are not used" backend=gpu name=stt.test number=1 addresses=0.0.0.0:2700 reason="no server can have this address"`,
			`level=INFO msg="DNS lookup works again" backend=gpu name=stt.test servers=2 failed_for=`,
		} {
			if len(lines) != 4 || !strings.HasPrefix(lines[i], want) {
				t.Fatalf("the log is\n%s\nline %d should be\n%s", r.log, i+1, want)
			}
		}
	})
}

// TestFlapping has each answer differ from the last for an hour, and every other one be an error: what is kept in memory, and what is logged,
// does not grow.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.watch(time.Second)
		for n := range 3600 {
			if n%2 == 0 {
				r.resolver.say(errors.New("i/o timeout"))
			} else {
				r.resolver.say(nil, fmt.Sprintf("10.%d.%d.1", n%7, n%251), fmt.Sprintf("10.1.%d.2", n%241), "0.0.0.0")
			}
			time.Sleep(time.Second)
			if servers, _ := r.Servers("gpu", stt); len(servers) > 256 {
				t.Fatalf("%d servers", len(servers))
			}
		}
		if now, _ := r.Status("gpu"); now.Lookups < 3000 || now.Failures < 1000 || len(now.LeftOut) > 6 {
			t.Errorf("the status is %+v", now)
		}
		synctest.Wait()
		if lines := strings.Count(r.log.String(), "\n"); lines > 125 || !strings.Contains(r.log.String(), "DNS lookup failed") {
			t.Errorf("the log has %d lines:\n%.2000s", lines, r.log)
		}
		// What lasts is said, though not at once. An answer goes before it, lest it continue a failure that was logged with another reason.
		r.resolver.say(nil, "10.0.0.1")
		time.Sleep(2 * time.Second)
		r.resolver.say(errors.New("no route to host"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !strings.HasSuffix(strings.TrimSpace(r.log.String()), `reason="no route to host"`) {
			t.Errorf("the log does not end with the failure that lasts:\n%s", r.log.String()[max(0, r.log.Len()-500):])
		}
	})
}

// A name that does not exist at the start is looked up more often than its interval says.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(errors.New("network is unreachable"))
		r.watch(time.Hour)
		time.Sleep(time.Minute)
		if n := len(r.resolver.times()); n < 10 || n > 15 {
			t.Errorf("%d lookups in a minute", n)
		}
		if _, ok := r.Servers("gpu", stt); ok {
			t.Error("there are servers before an answer")
		}
		r.resolver.say(nil, "10.0.0.1")
		r.expect(t, 7*time.Second, "10.0.0.1:2700")
		asked := len(r.resolver.times())
		r.expect(t, 40*time.Minute, "10.0.0.1:2700")
		if n := len(r.resolver.times()); n != asked {
			t.Errorf("%d lookups within the hour after the answer", n-asked)
		}
	})
}

// A DNS server that does not answer costs one lookup its time, and fails it.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1")
		r.watch(time.Second)
		r.expect(t, 100*time.Millisecond, "10.0.0.1:2700")
		r.resolver.mu.Lock()
		r.resolver.hangs = true
		r.resolver.mu.Unlock()
		r.expect(t, 15*time.Second, "10.0.0.1:2700")
		if now, _ := r.Status("gpu"); now.Failures != 1 || !strings.Contains(now.Reason, "deadline exceeded") {
			t.Errorf("the status is %+v", now)
		}
	}) // Close ends a lookup that hangs
}

// Addresses at which this proxy itself accepts clients are left out, and said once though answers alternate.
func TestOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) {
			o.Own = func(a netip.AddrPort) bool { return a == netip.MustParseAddrPort("10.0.0.9:2700") }
		})
		for range 10 {
			r.resolver.say(nil, "10.0.0.1", "10.0.0.9")
			r.watch(time.Second)
			r.expect(t, 2*time.Second, "10.0.0.1:2700")
			r.resolver.say(nil, "10.0.0.1")
			r.expect(t, 2*time.Second, "10.0.0.1:2700")
		}
		if n := strings.Count(r.log.String(), "this proxy itself listens there"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, r.log)
		}
		if n := r.changes.Load(); n != 1 {
			t.Errorf("%d changes", n)
		}
	})
}

// What is watched changes: another interval takes effect at once, another question begins anew, and a name that is not watched is
// not looked up.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.resolver.say(nil, "10.0.0.1")
		r.watch(time.Hour)
		r.expect(t, time.Second, "10.0.0.1:2700")
		r.resolver.say(nil, "10.0.0.1", "10.0.0.2")
		r.watch(time.Hour)
		r.expect(t, time.Minute, "10.0.0.1:2700")
		r.watch(time.Minute)
		r.expect(t, time.Second, "10.0.0.1:2700", "10.0.0.2:2700")
		other := Question{Host: "mt.test", Port: 1}
		r.Watch(map[string]Watched{"gpu": {other, time.Minute}})
		if _, ok := r.Servers("gpu", other); ok {
			t.Error("another question is answered before it was asked")
		}
		r.expect(t, time.Second) // the old question no longer has an answer
		if servers, _ := r.Servers("gpu", other); len(servers) != 2 || servers[0].Address.Port() != 1 {
			t.Errorf("servers are %v", servers)
		}
		r.Watch(nil)
		asked := len(r.resolver.times())
		time.Sleep(time.Hour)
		if n := len(r.resolver.times()); n != asked {
			t.Errorf("a name that is not watched is looked up %d times", n-asked)
		}
		if _, ok := r.Status("gpu"); ok {
			t.Error("it has a status")
		}
	})
}
