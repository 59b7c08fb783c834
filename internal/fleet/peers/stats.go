package peers

import (
	"reflect"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// proxyStats is the statistics of one proxy.
type proxyStats struct {
	name  string
	stats *api.Stats
}

// begin returns the statistics of a fleet of which one proxy is known, this one: what cannot be added, such as the version and the
// certificates, stays that of its. own stays as it is.
func begin(own proxyStats) *api.Stats {
	all := *own.stats
	all.Drain, all.Shortages, all.Disks, all.Problems = nil, nil, nil, []api.Problem{}
	all.Services, all.Backends, all.Leaving = []api.Service{}, []api.Backend{}, nil
	all.Tenants = nil
	all.Loops.Loops = slices.Clone(all.Loops.Loops)
	all.Limits.Totals, all.Limits.Lately, all.Authentication.Results = []api.LimitTotal{}, []api.LimitReached{}, []api.AuthResult{}
	if all.Replay != nil {
		all.Replay = new(*all.Replay)
	}
	list(&all, own)
	return &all
}

// join adds another proxy to the statistics of a fleet: all numbers are those of all proxies together. p stays as it is.
func join(all *api.Stats, p proxyStats) {
	s := p.stats
	all.Draining = all.Draining && s.Draining
	all.InternalErrors += s.InternalErrors
	add(&all.AccessLog, &s.AccessLog)
	add(&all.Sessions, &s.Sessions)
	add(&all.Relayed, &s.Relayed)
	add(&all.Authentication, &s.Authentication)
	add(&all.Limits, &s.Limits)
	add(&all.OtherTenants, &s.OtherTenants)
	add(&all.Loops, &s.Loops)
	all.Loops.Loops = append(all.Loops.Loops, s.Loops.Loops...)
	if all.Replay != nil && s.Replay != nil {
		add(all.Replay, s.Replay)
	}
	addDiscovery(all, s)
	list(all, p)
}

// list adds a proxy to what the statistics list.
func list(all *api.Stats, p proxyStats) {
	for _, short := range p.stats.Shortages {
		all.Shortages = append(all.Shortages, p.name+": "+short)
	}
	for _, disk := range p.stats.Disks {
		disk.Path = p.name + ": " + disk.Path
		all.Disks = append(all.Disks, disk)
	}
	all.Problems = addProblems(all.Problems, p.stats.Problems, p.name)
	addServices(all, p.stats)
	addBackends(all, p)
	addTenants(all, p.stats)
	addLimits(all, p.stats)
}

// size returns how many entries the statistics list.
func size(all *api.Stats) int {
	return len(all.Services) + len(all.Backends) + len(all.Leaving) + len(all.Problems) + len(all.Tenants) + len(all.Discovery) + len(all.Limits.Totals) + len(all.Limits.Lately) + len(all.Authentication.Results)
}

// merge adds each of from to the one of to that is like it, or appends it. The elements are copied.
func merge[T any](to, from []T, like func(a, b *T) bool, add func(to, from *T)) []T {
	for i := range from {
		k := slices.IndexFunc(to, func(t T) bool { return like(&t, &from[i]) })
		if k < 0 {
			to = append(to, from[i])
			continue
		}
		add(&to[k], &from[i])
	}
	return to
}

func addServices(all, s *api.Stats) {
	before := len(all.Services)
	all.Services = merge(all.Services, s.Services, func(a, b *api.Service) bool { return a.Name == b.Name }, func(to, from *api.Service) {
		to.Paused = to.Paused || from.Paused
		if from.Utilisation > to.Utilisation { // each is of the fleet, as one proxy knows it; clients suffer where it is highest
			to.Utilisation, to.Fleet = from.Utilisation, from.Fleet
		}
		add(&to.Used, &from.Used)
		oldest := max(to.Queue.OldestSeconds, from.Queue.OldestSeconds)
		add(&to.Queue, &from.Queue)
		to.Queue.OldestSeconds = oldest
		if to.Affinity != nil && from.Affinity != nil {
			add(to.Affinity, from.Affinity)
		}
		if to.Failover != nil && from.Failover != nil {
			to.Failover.Moved += from.Failover.Moved
			to.Failover.NotMoved += from.Failover.NotMoved
			add(&to.Failover.Unassured, &from.Failover.Unassured)
			if from.Failover.Failed.After(to.Failover.Failed) {
				to.Failover.Failed = from.Failover.Failed
			}
		}
	})
	for i := before; i < len(all.Services); i++ { // what was appended still shares this with its part
		if f := all.Services[i].Failover; f != nil {
			all.Services[i].Failover = new(*f)
		}
		if a := all.Services[i].Affinity; a != nil {
			all.Services[i].Affinity = new(*a)
		}
	}
}

func addBackends(all *api.Stats, p proxyStats) {
	for i := range p.stats.Backends {
		b := &p.stats.Backends[i]
		k := slices.IndexFunc(all.Backends, func(a api.Backend) bool { return a.Name == b.Name && a.Service == b.Service })
		mine := api.BackendPart{
			Proxy: p.name, Configuration: p.stats.Configuration.Version, State: b.State, Usable: b.Usable, Limit: b.MostConnections(), Warm: b.Warm,
			Dialing: b.Dialing, Idle: b.Idle, Leased: b.Leased, Resetting: b.Resetting, Retiring: b.Retiring,
		}
		if k < 0 {
			one := *b
			one.Variants = slices.Clone(b.Variants)
			one.Proxies = []api.BackendPart{mine}
			if b.Places != nil {
				one.Places = new(*b.Places)
			}
			explain(&one.Health, p.name)
			all.Backends = append(all.Backends, one)
			continue
		}
		addBackend(&all.Backends[k], b, p.name)
		all.Backends[k].Proxies = append(all.Backends[k].Proxies, mine)
	}
	all.Leaving = merge(all.Leaving, p.stats.Leaving, func(a, b *api.Leaving) bool {
		return a.Name == b.Name && a.Service == b.Service && a.URL == b.URL
	}, add)
}

// addBackend adds what another proxy says of a backend.
func addBackend(to, from *api.Backend, proxy string) {
	// The proxies share one server: its cap is the same for all, or the least while a change is on its way.
	limit := min(to.Cap, from.Cap)
	ceiling := limit
	if to.Ceiling < to.Cap || from.Ceiling < from.Cap { // the server is full for one of them
		ceiling = min(to.MostConnections()+from.MostConnections(), limit)
	}
	cause := to.Health
	if cause.CeilingCause == "" {
		cause = from.Health
		explain(&cause, proxy)
	}
	weight, ramp := max(to.Weight, from.Weight), max(to.Ramp, from.Ramp)
	warm := min(to.Warm+from.Warm, limit)
	usable := to.Usable || from.Usable
	broken, outliers, opened := to.Broken+from.Broken, to.Outliers+from.Outliers, to.CircuitOpened+from.CircuitOpened
	switch {
	case from.Untried(): // it cannot know
	case to.Untried(), to.Health.Condition().Word == api.Healthy && from.Health.Condition().Word != api.Healthy: // what is wrong anywhere is worth to be known
		to.Health = from.Health
		explain(&to.Health, proxy)
	}
	to.CeilingCause, to.CeilingSince, to.CeilingReason = cause.CeilingCause, cause.CeilingSince, cause.CeilingReason // whichever health is shown
	if from.Published != nil && (to.Published == nil || from.Published.At.After(to.Published.At)) {
		to.Published = from.Published
	}
	if to.Places != nil && from.Places != nil {
		to.Places.Grant += from.Places.Grant
	}
	add(&to.Pool, &from.Pool)
	to.Limit = min(to.Limit, limit)
	to.Cap, to.Ceiling, to.Weight, to.Ramp, to.Warm, to.Usable = limit, ceiling, weight, ramp, warm, usable
	to.Broken, to.Outliers, to.CircuitOpened = broken, outliers, opened
	to.Retired += from.Retired
	to.Stalls, to.Moved, to.NotMoved = to.Stalls+from.Stalls, to.Moved+from.Moved, to.NotMoved+from.NotMoved
	to.LagSeconds, to.MedianLagSeconds = max(to.LagSeconds, from.LagSeconds), max(to.MedianLagSeconds, from.MedianLagSeconds)
	to.OwedSeconds = max(to.OwedSeconds, from.OwedSeconds)
	to.LatenessSeconds = max(to.LatenessSeconds, from.LatenessSeconds)
	if from.FirstReplies > to.FirstReplies { // the better estimate of the two
		to.FirstReplySeconds = from.FirstReplySeconds
	}
	to.FirstReplies += from.FirstReplies
	to.AnsweredSessions += from.AnsweredSessions
	to.HeardSessions += from.HeardSessions
	to.FirstReplyOwedSeconds = max(to.FirstReplyOwedSeconds, from.FirstReplyOwedSeconds)
	to.Overdue = addOverdue(to.Overdue, from.Overdue)
	to.Variants = merge(to.Variants, from.Variants, func(a, b *api.Variant) bool { return a.Variant == b.Variant }, add)
}

// addOverdue returns what a server owes the sessions of two proxies together. Both may be nil.
func addOverdue(a, b *api.Overdue) *api.Overdue {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a
	sum.Sessions, sum.Unreplied = a.Sessions+b.Sessions, a.Unreplied+b.Unreplied
	sum.PatienceSeconds = max(a.PatienceSeconds, b.PatienceSeconds)
	if b.LongestSeconds > a.LongestSeconds {
		sum.LongestSeconds, sum.Since = b.LongestSeconds, b.Since
	}
	return &sum
}

// explain says in the reasons of a backend's health which proxy has found it.
func explain(h *api.Health, proxy string) {
	for _, reason := range []*string{&h.Reason, &h.CircuitReason, &h.ProbeReason, &h.CanaryReason, &h.OutlierReason, &h.StalledReason, &h.CeilingReason} {
		if *reason != "" {
			*reason += " (seen by " + proxy + ")"
		}
	}
}

func addTenants(all, s *api.Stats) {
	before := len(all.Tenants)
	all.Tenants = merge(all.Tenants, s.Tenants, func(a, b *api.Tenant) bool { return a.Name == b.Name }, func(to, from *api.Tenant) {
		to.Sessions += from.Sessions
		to.Waiting += from.Waiting
		to.Totals.Add(&from.Totals)
		add(&to.Used, &from.Used)
		to.Services = merge(to.Services, from.Services, func(a, b *api.TenantService) bool { return a.Service == b.Service }, add)
	})
	for i := before; i < len(all.Tenants); i++ { // what was appended still shares this with its part
		all.Tenants[i].Services = slices.Clone(all.Tenants[i].Services)
	}
}

func addLimits(all, s *api.Stats) {
	addCount := func(to, from *api.LimitTotal) { to.Count += from.Count }
	all.Limits.Totals = merge(all.Limits.Totals, s.Limits.Totals, func(a, b *api.LimitTotal) bool { return a.Limit == b.Limit && a.Scope == b.Scope }, addCount)
	all.Limits.Lately = merge(all.Limits.Lately, s.Limits.Lately, func(a, b *api.LimitReached) bool {
		return a.Limit == b.Limit && a.Scope == b.Scope && a.Name == b.Name
	}, func(to, from *api.LimitReached) {
		to.Count += from.Count
		if from.Since.Before(to.Since) {
			to.Since = from.Since
		}
	})
	all.Authentication.Results = merge(all.Authentication.Results, s.Authentication.Results, func(a, b *api.AuthResult) bool {
		return a.Method == b.Method && a.Result == b.Result
	}, func(to, from *api.AuthResult) { to.Count += from.Count })
}

// addDiscovery adds the names that only another proxy looks up.
func addDiscovery(all, s *api.Stats) {
	all.Discovery = merge(slices.Clone(all.Discovery), s.Discovery, func(a, b *api.Discovery) bool { return a.Backend == b.Backend }, func(_, _ *api.Discovery) {})
}

// add adds the numbers of one value to those of another of the same type: of fields, of what is embedded and of maps. Texts, times,
// lists and what pointers lead to stay what they are.
func add[T any](to, from *T) { addValue(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()) }

func addValue(to, from reflect.Value) {
	switch {
	case to.CanInt():
		to.SetInt(to.Int() + from.Int())
	case to.CanUint():
		to.SetUint(to.Uint() + from.Uint())
	case to.CanFloat():
		to.SetFloat(to.Float() + from.Float())
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if to.Type().Field(i).IsExported() { // not what times consist of
				addValue(to.Field(i), from.Field(i))
			}
		}
	case to.Kind() == reflect.Map && from.Len() > 0:
		sum := reflect.MakeMapWithSize(to.Type(), from.Len()) // the other map has another owner
		for _, all := range []reflect.Value{to, from} {
			for key, value := range all.Seq2() {
				n := reflect.New(to.Type().Elem()).Elem()
				if before := sum.MapIndex(key); before.IsValid() {
					n.Set(before)
				}
				addValue(n, value)
				sum.SetMapIndex(key, n)
			}
		}
		to.Set(sum)
	}
}
