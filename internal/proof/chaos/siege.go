package chaos

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// A siege is many hostile clients of one kind at once, against a proxy of its own. Meanwhile well-behaved clients send messages through a
// service of their own and measure how long the echoes take, others come from elsewhere and measure how long they take to get in, and the
// proxy's memory and file descriptors are watched.
type siege struct {
	clients int                    // hostile ones at a time, each with one connection
	from    int                    // networks that they come from, one address of each; 0 for the address of the well-behaved sessions
	checked bool                   // the attacked service asks a server about its clients, and those who come go there, too
	pause   time.Duration          // of a client between two visits
	visit   func(a *attack) error  // one visit; it ends when a.ctx does
	tls     bool                   // it goes to the listener with TLS
	effect  effect                 // what most visits come to; nil for no more than a connection
	dropped bool                   // the proxy drops unfinished handshakes
	poison  bool                   // it goes to the servers of the well-behaved clients, which stumble over what it says: see poisonServers
	session time.Duration          // how long sessions of well-behaved clients last; 0 for the whole siege
	memory  int                    // most that the proxy's memory may grow, in MiB; 0 for siegeMemory
	judge   func(o *outcome) error // what else must hold; nil for nothing
	replay  bool                   // see replays
	restart bool                   // see restart.go
}

const (
	// siegeHandshakes is max-handshakes of a proxy under siege.
	siegeHandshakes = 500
	// siegeSessions is how many well-behaved clients there are at most.
	siegeSessions = 500
	// siegePlaces is how many sessions hostile clients may have at a time.
	siegePlaces = 600
	// siegeMemory is how much the memory of a proxy under siege may grow by default, in MiB.
	siegeMemory = 64
	// siegeLatency is the time that 99 % of the echoes may take more than without a siege, if a run lasts long enough to judge it.
	siegeLatency = 100 * time.Millisecond
	// minSiege is the shortest time of a siege: more than the proxy's patience with handshakes while most come to their end.
	minSiege = 3 * time.Second
	// siegeShare is the part of a run's duration, 1/siegeShare, that each siege lasts in addition to it, but no more than 15 seconds.
	siegeShare = 30
	// judgedSiege is the length of a siege from which on latency is judged. In a test that shares its processors with others, it says
	// nothing.
	judgedSiege = 5 * time.Second
	// judgedProcessors is the number of processors from which on latency is judged.
	judgedProcessors = 2
)

// outcome is what a siege has led to.
type outcome struct {
	load         *load.Result
	came         arrivals
	hostile      int     // clients at a time
	visits       visits  // of them
	memory       int     // of the proxy at most, in MiB
	before       int     // the same before the siege
	files        int     // open at most
	unfinished   int     // most handshakes at a time
	cpu          float64 // share of a processor
	handshakes   uint64  // dropped
	ended        map[uint16]uint64
	refused      map[int]uint64
	sessionsLeft int64               // when all clients have gone
	takenOut     []string            // servers that got no new sessions for a while, and why: all of them are healthy, unless one dies on purpose
	above        []string            // servers that had more connections than their cap
	last         *api.Stats          // what the proxy said last
	restart      *restart            // of the siege in which a server comes back
	crowd, hogs  api.ServiceFailover // of the services, in a siege with replay
}

// besiege runs the chosen sieges one after the other, each against a proxy of its own, and writes a table.
func (r *run) besiege(ctx context.Context, directory string) error {
	var chosen []*scenario
	for _, s := range r.chosen {
		if s.siege != nil {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	length := min(max(r.options.Duration/siegeShare, minSiege), 15*time.Second)
	sessions := siegeSessions
	if length < judgedSiege {
		sessions = min(r.options.Sessions, siegeSessions)
	}
	fmt.Fprintf(r.options.Out, "\nSieges of %v each, beside %d well-behaved sessions:\n", length, sessions)
	table := tabwriter.NewWriter(r.options.Out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "SIEGE\tVISITS\tP50 MS\tP99 MS\tMAX MS\tMIB BEFORE\tMIB AT MOST\tFILES\tUNFINISHED\tDROPPED\tCPU %\tCLOSE CODES\tREFUSED\tCAME\tIN P50 MS\tIN P99 MS\tIN MAX MS")
	for _, s := range chosen {
		o, err := r.siege(ctx, s, directory, length, sessions)
		if err != nil {
			return fmt.Errorf("siege %s: %w", s.name, err)
		}
		ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1000) }
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%s\t%s\t%d\t%s\t%s\t%s\n", s.name, o.visits.Came, ms(o.load.Latency.Quantile(0.5)),
			ms(o.load.Latency.Quantile(0.99)), ms(o.load.Latency.Quantile(1)), o.before, o.memory, o.files, o.unfinished, o.handshakes, 100*o.cpu,
			kit.Tallied(o.ended), kit.Tallied(o.refused), len(o.came.took), ms(kit.Quantile(o.came.took, 0.5)), ms(kit.Quantile(o.came.took, 0.99)), ms(kit.Quantile(o.came.took, 1)))
		if s.siege.clients == 0 && !s.siege.restart {
			r.atPeace = o.load.Latency.Quantile(0.99)
		}
		r.judgeSiege(s, o, length)
	}
	return nil
}

// judgeSiege notes what must not happen.
func (r *run) judgeSiege(s *scenario, o *outcome, length time.Duration) {
	wrong := func(kind, format string, args ...any) { r.journal.Violation(s.name, kind, nil, format, args...) }
	if l := o.load; l.Failed > 0 && !s.siege.restart || l.Lost > 0 || l.Mixed > 0 || l.ConnectFailures > 0 || l.Received == 0 {
		wrong("a siege cost well-behaved clients their sessions", "%d failed, %d messages lost, %d wrong, %d could not connect, %d right: %v", l.Failed, l.Lost, l.Mixed, l.ConnectFailures, l.Received, l.Errors)
	}
	if o.came.failed > 0 && !s.siege.restart || o.came.failed > comersAtOnce || len(o.came.took) == 0 {
		wrong("a siege kept well-behaved clients out", "%d of %d: %v", o.came.failed, o.came.failed+len(o.came.took), o.came.err)
	}
	within := siegeLatency
	if s.siege.checked {
		within += checkTime
	}
	if p99 := kit.Quantile(o.came.took, 0.99); length >= judgedSiege && runtime.NumCPU() >= judgedProcessors && p99 > within {
		wrong("a siege delayed well-behaved clients that came", "the 99th percentile is %v", p99)
	}
	if p99 := o.load.Latency.Quantile(0.99); length >= judgedSiege && runtime.NumCPU() >= judgedProcessors && p99 > siegeLatency+r.atPeace {
		wrong("a siege slowed well-behaved clients down", "the 99th percentile is %v; without a siege it was %v", p99, r.atPeace)
	}
	if o.memory-o.before > cmp.Or(s.siege.memory, siegeMemory) {
		wrong("a siege made the proxy's memory grow", "from %d MiB to %d", o.before, o.memory)
	}
	if o.unfinished > siegeHandshakes {
		wrong("more unfinished handshakes than max-handshakes", "%d", o.unfinished)
	}
	if s.siege.clients > 0 {
		if err := o.visits.judge(s.siege.effect); err != nil {
			wrong("a siege had no effect", "%v", err)
		}
	}
	if s.siege.dropped && o.handshakes == 0 {
		wrong("no unfinished handshake was dropped", "%d visits", o.visits.Came)
	}
	if o.sessionsLeft != 0 {
		wrong("sessions of hostile clients are left over", "%d", o.sessionsLeft)
	}
	if len(o.above) > 0 {
		wrong("more connections than the cap", "%s", o.above[0])
	}
	for _, why := range o.takenOut {
		if s.siege.replay || s.siege.restart {
			break // a server dies in it
		}
		wrong("a siege took a healthy server out of service", "%s", why)
	}
	if s.siege.judge != nil {
		if err := s.siege.judge(o); err != nil {
			wrong("a siege did not end as it must", "%v", err)
		}
	}
}

// siege carries out one siege.
func (r *run) siege(ctx context.Context, s *scenario, directory string, length time.Duration, sessions int) (*outcome, error) {
	crowdServers, besiegedServers, hostile := 1, 1, (*scenario)(nil)
	switch {
	case s.siege.restart:
		crowdServers, sessions, length = restartServers, max(sessions, r.options.Sessions), max(length, restartLength)
	case s.siege.poison:
		crowdServers = poisonServers
	case s.siege.replay:
		crowdServers, besiegedServers, hostile = 2, 0, &swallower
	}
	crowd, err := newService("crowd", sim.Echo, crowdServers, sessions, nil, sim.FailOptions{Poison: s.siege.poison}, r.seed(s.name), r.journal)
	if err != nil {
		return nil, err
	}
	defer crowd.stop()
	besieged, err := newService("besieged", sim.Echo, besiegedServers, sessions, hostile, sim.FailOptions{}, r.seed(s.name), r.journal)
	if err != nil {
		return nil, err
	}
	defer besieged.stop()
	crowd.cap, besieged.cap = sessions+20, siegePlaces
	var again *restart
	if s.siege.restart {
		crowd.cap = (sessions+1)/2 + comersAtOnce
		again = &restart{servers: crowd.healthy, cap: crowd.cap}
	}
	if s.siege.checked {
		check := startCheck()
		defer check.Close()
		besieged.more = ", auth: external, auth-url: " + check.URL
	}
	size, middle := 640, func(context.Context, *proxy) {}
	switch {
	case s.siege.replay:
		crowd.more, besieged.more = replays, replays
		size, middle = replayedMessage, func(context.Context, *proxy) { crowd.healthy[0].sim.Kill() }
	case s.siege.restart:
		middle = again.happen
	}
	config := &configuration{backends: make(map[string]backend)}
	m := machine{arguments: []string{"--max-handshakes", fmt.Sprint(siegeHandshakes), "--handshake-timeout", "1m", "--client-timeout", "2s"}}
	if s.siege.replay {
		m.arguments = append(m.arguments, "--replay-memory", "16MiB")
	}
	var certificate *stage.Certificate
	if s.siege.tls {
		if certificate, err = stage.NewCertificate(directory, stage.Lifetime); err != nil {
			return nil, err
		}
	}
	p, err := startProxy(ctx, r.options.Binary, s.name, directory, config, m, certificate)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	config.add(crowd)
	config.add(besieged)
	if h := besieged.hostile; h != nil {
		b := config.backends[h.name]
		b.connections = siegePlaces
		config.backends[h.name] = b
	}
	if err := config.write(config.text()); err != nil {
		return nil, err
	}
	if err := p.Until(ctx, "servers have connections", func() (bool, error) {
		stats, err := p.Stats(ctx)
		busy := func(b api.Backend) bool { return b.Idle == 0 }
		return err == nil && len(stats.Backends) == len(config.backends) && !slices.ContainsFunc(stats.Backends, busy), nil
	}); err != nil {
		return nil, err
	}
	o, err := r.loadAndAttack(ctx, s, p, length, sessions, size, middle)
	if err == nil {
		o.restart = again
	}
	return o, err
}

// loadAndAttack attacks the proxy while well-behaved clients use it with messages of that size. It calls middle in the middle of that.
func (r *run) loadAndAttack(ctx context.Context, s *scenario, p *proxy, length time.Duration, sessions, size int, middle func(context.Context, *proxy)) (*outcome, error) {
	attacking, stop := context.WithCancel(ctx)
	defer stop()
	o := new(outcome)
	var watch sync.WaitGroup
	var hostile *besieger
	var failed error // to start the hostile clients
	address := cmp.Or(p.secured, p.Listen)
	coming := &comers{url: "ws://" + address + "/crowd"}
	if s.siege.checked {
		coming.url, coming.token = "ws://"+address+"/besieged", goodToken
	}
	if s.siege.tls {
		coming.url = strings.Replace(coming.url, "ws://", "wss://", 1)
	}
	begin := func() {
		o.before = p.Memory() / kit.MiB
		clients := s.siege.clients
		if length < judgedSiege {
			clients = min(clients, 3*siegeHandshakes/2) // still more than there may be
		}
		o.hostile = clients
		if clients > 0 {
			hostile, failed = startBesieger(s.name, address, clients, r.seed(s.name))
		}
		watch.Go(func() { o.watch(attacking, p) })
		// On a busy machine it takes a while until the attack has its effect. If it has none, the judge says so.
		_ = p.Until(ctx, "the attack has its effect", func() (bool, error) {
			stats, err := p.Stats(ctx)
			if err == nil {
				o.take(stats, s.siege)
			}
			return err == nil && o.felt(s.siege), nil
		})
		watch.Go(func() {
			if kit.Wait(attacking, length/2) == nil {
				middle(attacking, p)
			}
		})
		watch.Go(func() { failed = errors.Join(failed, coming.come(attacking)) })
	}
	result, err := load.Run(ctx, load.Options{
		URLs: []string{"ws://" + p.Listen + "/crowd"}, Connections: sessions, Ramp: length / 5, Rate: 5, Size: size, Duration: length, Loops: 1,
		SessionLength: s.siege.session,
	}, func(progress load.Progress) {
		switch {
		case progress.Phase == load.Steady && progress.Begins:
			begin()
		case progress.Phase == load.Draining && progress.Begins:
			stop()
		}
	})
	stop()
	watch.Wait()
	o.came = coming.summary()
	if hostile != nil && failed == nil {
		o.visits, failed = hostile.end()
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	o.load = result
	// What hostile clients have left behind ends by itself.
	err = p.Until(ctx, "no session is left", func() (bool, error) {
		stats, err := p.Stats(ctx)
		if err != nil {
			return false, nil
		}
		o.take(stats, s.siege)
		return o.sessionsLeft == 0, nil
	})
	if err := p.Failure(); err != nil {
		return nil, err
	}
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return o, nil
}

// take takes in what the proxy says.
func (o *outcome) take(stats *api.Stats, s *siege) {
	o.sessionsLeft, o.last = stats.Sessions.Active, stats
	if s.replay {
		o.crowd, o.hogs = *stats.Service("crowd").Failover, *stats.Service("besieged").Failover
	}
	o.ended, o.refused, o.handshakes = stats.Sessions.Ended, stats.Sessions.Refused, 0
	for _, n := range stats.Sessions.Handshakes.Dropped {
		o.handshakes += n
	}
}

// felt reports whether the attack has its effect on the proxy.
func (o *outcome) felt(s *siege) bool {
	switch {
	case s.dropped && o.handshakes == 0:
		return false
	case s.restart:
		return true
	case s.replay: // what else must hold does at the end
		return o.hogs.Unassured["memory"] > 0
	}
	return s.judge == nil || s.judge(o) == nil
}

// watch measures the proxy until ctx ends.
func (o *outcome) watch(ctx context.Context, p *proxy) {
	begun, used := time.Now(), p.ProcessorTime()
	for {
		o.memory = max(o.memory, p.Memory()/kit.MiB)
		o.files = max(o.files, p.OpenFiles())
		o.cpu = (p.ProcessorTime() - used).Seconds() / time.Since(begun).Seconds()
		if stats, err := p.Stats(ctx); err == nil {
			o.unfinished, o.takenOut = max(o.unfinished, stats.Sessions.Handshakes.Unfinished), takenOut(stats)
			for i := range stats.Backends {
				if b := &stats.Backends[i]; b.Used() > b.Cap {
					o.above = append(o.above, fmt.Sprintf("%s: %+v", b.Name, b.Pool))
				}
			}
		}
		if kit.Wait(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

const (
	// comersAtOnce is how many well-behaved clients come during a siege at a time, each with a pause of comePause at most between two visits.
	comersAtOnce = 4
	comePause    = 50 * time.Millisecond
	// comeTimeout is how long one of them may take to get in.
	comeTimeout = 10 * time.Second
)

// comesFrom returns the address from which a session's client comes: none that hostile clients have.
func comesFrom(session uint64) net.IP {
	return net.IPv4(127, 0, byte(1+session%comersAtOnce), byte(1+session/comersAtOnce%250))
}

// comers are well-behaved clients that come during a siege, ask for one echo, and leave in order.
type comers struct {
	// Static.
	url   string
	token string // their credential; empty for none

	mu sync.Mutex
	arrivals
}

// arrivals is what has become of them.
type arrivals struct {
	took   []time.Duration // of those who got in, until their echo had come; sorted in a summary
	failed int
	err    error // of one that failed
}

// summary returns what has become of those who came.
func (c *comers) summary() arrivals {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	return c.arrivals
}

// come has them visit the proxy again and again until ctx ends.
func (c *comers) come(ctx context.Context) error {
	o := hunt.Options{
		URL: c.url, Protocol: sim.Echo, Sessions: 1 << 30, Concurrency: comersAtOnce, MaxChunks: 1, Rest: comePause, Timeout: comeTimeout, Exact: true,
		Manners: hunt.Manners{hunt.CleanEnd: 1}, From: comesFrom, Outcome: c.judge,
		TLS: &tls.Config{InsecureSkipVerify: true}, // it is the proxy's own certificate
	}
	if c.token != "" {
		o.Header = []string{"Authorization: Bearer " + c.token}
	}
	if _, err := hunt.Run(ctx, o); ctx.Err() == nil {
		return err
	}
	return nil
}

// judge takes in how a session ended.
func (c *comers) judge(o hunt.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Succeeded() {
		c.took = append(c.took, o.Answered)
		return
	}
	c.failed++
	c.err = fmt.Errorf("%s %s\n%s", o.Kind, o.Reason, o.Trace())
}
