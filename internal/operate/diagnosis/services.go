package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// longWait is for how many seconds a client must wait to be worth a word: a connection that is just being cleaned takes less.
	longWait = 1
	// nearlyAll is the utilisation from which on a service should get more servers.
	nearlyAll = 0.9
	// mostOf is the part of a queue that one tenant must have to be the one that fills it.
	mostOf = 0.75
	// degradedFrom is how many backends must be down for the service to be what is named, and not each of them.
	degradedFrom = 2
	// mostNames is how many backends are named one by one.
	mostNames = 3
)

// ofServices names what is wrong with services: each has one problem at most, and the worst. The problems of its backends are found already:
// those that cause one of the service become a part of it.
func ofServices(f *Facts, found *findings) {
	for i := range f.Stats.Services {
		ofService(f, &f.Stats.Services[i], found)
	}
}

func ofService(f *Facts, v *api.Service, found *findings) {
	about, backends := service(v.Name), f.backends(v.Name)
	usable, enabled := 0, 0
	var weightless []api.Problem // not a problem by itself, but a reason why none of them can take sessions
	for _, b := range backends {
		switch {
		case b.State != "enabled":
		case b.Weight > 0:
			enabled++
		case healthOf(b).Word == api.Healthy:
			weightless = append(weightless, api.Problem{Backend: b.Name, Text: noWeight, Cure: commandOn(b, "set") + " --weight 1"})
		}
		if b.TakesSessions() {
			usable++
		}
	}
	waiting := ""
	if q := v.Queue; q.Waiting > 0 {
		waiting = fmt.Sprintf("%s, the first for %s", figures.Plural(q.Waiting, "client")+verb(q.Waiting, " waits", " wait"), figures.Seconds(q.OldestSeconds))
		waiting += then(placesInUse(f.Stats, v))
	}
	waitsLong := waiting != "" && v.Queue.OldestSeconds >= longWait
	full := waiting != "" && (v.Queue.Waiting >= v.Queue.Limit || f.Recent.Full[v.Name] > 0) // a full queue is not full at each moment
	more := "wsbouncer backend add NAME URL --connections N --service " + v.Name
	switch {
	case v.Paused:
		p := found.add(ServicePaused, about, "paused: %s", cmp.Or(waiting, "clients wait until it is resumed"))
		if p.Cure = "wsbouncer service resume " + v.Name; waiting == "" {
			p.Hurts = api.HurtsOperator
		}
	case len(backends) == 0 && !found.has(v.Name, BackendNoServers):
		found.add(ServiceDown, about, "it has no backends%s", then(waiting)).Cure = more
	case usable == 0:
		causes := found.takeOut(v.Name, true)
		p := found.add(ServiceDown, about, "none of its backends can take sessions%s%s", because(append(slices.Clip(causes), weightless...)), then(waiting))
		if waiting != "" {
			p.Text += ". They get 503 when queue-timeout is over"
		}
		if caused(p, causes); p.Cure == "" && len(weightless) > 0 {
			p.Cure = cureOf(weightless)
		}
	case full && filler(f.Stats, v, found, waiting):
	case full:
		found.add(ServiceQueueFull, about, "its queue is full: %s", waiting).Cure = more
	case enabled-usable >= degradedFrom && 2*(enabled-usable) >= enabled:
		causes := found.takeOut(v.Name, false)
		p := found.add(ServiceDegraded, about, "%d of its %d backends take no sessions%s%s", len(causes), enabled, because(causes), then(waiting))
		if caused(p, causes); waitsLong {
			p.Hurts = api.HurtsClients
		}
	case waitsLong:
		found.add(ServiceWaiting, about, "%s", waiting).Cure = more
	case v.Utilisation >= nearlyAll:
		found.add(ServiceNearlyFull, about, "%.0f %% of its connections are in use or wanted%s", 100*v.Utilisation, then(waiting)).Cure = more
	}
}

// filler names the tenant that fills a service's queue, and reports whether one does while there are others.
func filler(s *api.Stats, v *api.Service, found *findings, waiting string) bool {
	var most *api.Tenant
	has, others := 0, 0
	for i := range s.Tenants {
		t := &s.Tenants[i]
		k := slices.IndexFunc(t.Services, func(u api.TenantService) bool { return u.Service == v.Name })
		if k < 0 {
			continue
		}
		if t.Services[k].Sessions+t.Services[k].Waiting > 0 {
			others++
		}
		if t.Services[k].Waiting > has {
			most, has = t, t.Services[k].Waiting
		}
	}
	if most == nil || others < 2 || float64(has) < mostOf*float64(v.Queue.Waiting) {
		return false
	}
	p := found.add(TenantFillsQueue, subject{"tenant " + most.Name + " at " + v.Name, v.Name, ""}, "it has %d of the %d clients in the full queue: %s", has, v.Queue.Waiting, waiting)
	if isWord(most.Name) {
		p.Cure = "wsbouncer tenant set " + most.Name + " --session-limit N"
	}
	return true
}

// caused makes a problem of a service out of those of its backends: it is as old as the youngest of them, and has the cures of all.
func caused(p *api.Problem, causes []api.Problem) {
	for i := range causes {
		c := &causes[i]
		if !slices.Contains(p.Causes, c.Kind) {
			p.Causes = append(p.Causes, c.Kind)
		}
		if c.Since.After(p.Since) {
			p.Since = c.Since
		}
	}
	p.Cure = cureOf(causes)
}

// mostCures is how many commands are named, and mostCured how many backends in one of them.
const mostCures, mostCured = 3, 8

// cureOf returns the commands that help against problems of backends, with one command for all backends that need the same; if these are too many, the
// one that lists them.
func cureOf(causes []api.Problem) string {
	var commands []string
	names := make(map[string][]string) // by the command before the name; a command for one backend only has none
	for i := range causes {
		command, name := causes[i].Cure, ""
		for _, verb := range []string{"enable", "drain", "recycle"} { // they take several names
			if after, ok := strings.CutPrefix(command, "wsbouncer backend "+verb+" "); ok {
				command, name = strings.TrimSuffix(command, " "+after), after
			}
		}
		if command == "" || name == "" && slices.Contains(commands, command) || name != "" && slices.Contains(names[command], name) {
			continue
		}
		if !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
		if name != "" {
			names[command] = append(names[command], name)
		}
	}
	for i, command := range commands {
		if len(commands) > mostCures || len(names[command]) > mostCured {
			return "wsbouncer backend ls --output wide"
		}
		commands[i] = strings.Join(append([]string{command}, names[command]...), " ")
	}
	return strings.Join(commands, "; ")
}

// because says why backends take no sessions, each reason once.
func because(causes []api.Problem) string {
	var reasons []string
	names := make(map[string][]string)
	for i := range causes {
		c := &causes[i]
		if names[c.Text] == nil {
			reasons = append(reasons, c.Text)
		}
		names[c.Text] = append(names[c.Text], c.Backend)
	}
	for i, reason := range reasons {
		all := names[reason]
		if more := len(all) - mostNames; more > 0 {
			all = append(all[:mostNames:mostNames], fmt.Sprintf("%d more", more))
		}
		reasons[i] = strings.Join(all, ", ") + ": " + reason
	}
	if more := len(reasons) - mostNames; more > 0 {
		reasons = append(reasons[:mostNames:mostNames], figures.Plural(more, "other reason"))
	}
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}

// ofFailover shows whether other backends can continue services' sessions.
func ofFailover(f *Facts, found *findings) {
	for i := range f.Stats.Services {
		v := &f.Stats.Services[i]
		o := v.Failover
		if o == nil || o.Mode == "off" {
			continue
		}
		if o.Verdict == "never" {
			found.add(FailoverUseless, service(v.Name), "failover: replay has no effect: %s", cmp.Or(o.Why, "its profile does not say how")).
				Cure = "wsbouncer service set " + v.Name + " --failover off"
		}
		if !o.Failed.IsZero() && f.Now.Sub(o.Failed) < quiet {
			p := found.add(FailoverFailed, service(v.Name), "no other backend could continue sessions whose backend failed: see how they ended")
			p.Since, p.Cure = o.Failed, "wsbouncer session ls --state ended --service "+v.Name
		}
	}
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// then joins a second half of a sentence, if there is one.
func then(text string) string {
	if text == "" {
		return ""
	}
	return "; " + text
}
