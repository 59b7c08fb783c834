package peers

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// question is a request about the whole fleet: what this proxy has answered for itself, and what the others have.
type question struct {
	request *http.Request // without the parameter fleet
	status  int           // of this proxy's answer
	body    []byte
	fleet   api.Fleet // what this proxy knows
	self    string    // this proxy's name
	// each is the answers of the others, which are merged as they arrive; others are complete after that.
	each   iter.Seq[*answer]
	others []answer
}

// merger makes one answer of all: its status and its value. Answers that it cannot read become missing ones.
type merger func(q *question) (status int, value any, err error)

// parted returns the parts of a request's path below the API's: a kind, a name or id, and an action. It is empty for other paths.
func pathParts(r *http.Request) []string {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/v1/")
	if !ok {
		return nil
	}
	return strings.Split(path, "/")
}

// isAboutOne reports whether a request is about one session, which one proxy at most has.
func isAboutOne(r *http.Request) bool {
	parts := pathParts(r)
	return len(parts) > 1 && parts[0] == "sessions"
}

// mergerOf returns what makes one answer for requests with a method and a path; nil if there is no such thing.
func mergerOf(r *http.Request) merger {
	if !api.FleetWide(r.Method, r.URL.EscapedPath()) {
		return nil
	}
	parts := pathParts(r)
	switch kind := parts[0]; {
	case kind == "stats":
		return mergeStats
	case kind == "proxies":
		return mergeProxies
	case kind == "problems":
		return mergeProblems
	case kind == "sessions" && len(parts) > 1:
		return mergeOne
	case kind == "sessions" && r.Method == http.MethodDelete:
		return mergeOutcomes
	case kind == "sessions":
		return mergeSessions
	case parts[2] == "move":
		return mergeMoving
	}
	return mergeOutcomes
}

// missing returns the proxies that have not answered, with what that means.
func (q *question) missing(means string) (all []api.MissingProxy) {
	for i := range q.others {
		if a := &q.others[i]; a.why != "" {
			m := a.missing()
			if means != "" {
				m.Why += ": " + means
			}
			all = append(all, m)
		}
	}
	return all
}

// decode reads another proxy's answer. One that cannot be read becomes a missing one.
func decode[T any](a *answer) (value T, ok bool) {
	if a.why != "" || a.refused != nil {
		return value, false
	}
	if err := a.memory.decoding(a.body); err != nil {
		a.why = err.Error()
		return value, false
	}
	if err := json.Unmarshal(a.body, &value); err != nil {
		a.why = fmt.Sprintf("its answer is not understood (%v): is it another version?", err)
		return value, false
	}
	return value, true
}

// values yields the others' answers as they come, with their values. Those that cannot be read, or refuse, become missing ones.
func values[T any](q *question) iter.Seq2[*answer, *T] {
	return func(yield func(*answer, *T) bool) {
		for a := range q.each {
			value, ok := decode[T](a)
			if a.refused != nil {
				a.why = a.refused.Text
			}
			if ok && !yield(a, &value) {
				return
			}
		}
	}
}

func mergeStats(q *question) (int, any, error) {
	own := new(api.Stats)
	if err := json.Unmarshal(q.body, own); err != nil {
		return 0, nil, err
	}
	all := begin(proxyStats{q.self, own})
	f := &q.fleet
	for a, s := range values[api.Stats](q) {
		before := size(all)
		join(all, proxyStats{a.name, s})
		q.reached(a.id, s)
		a.passed = size(all) == before
	}
	f.Missing = q.missing("its sessions are not known")
	f.Whole = true
	q.noteMissing()
	if me := f.Self(); me != nil {
		me.Reachable, me.Sessions, me.Configuration = true, int(own.Sessions.Active), own.Configuration.Version
	}
	all.Fleet = f
	all.Problems = withMissing(all.Problems, f, time.Now().UTC())
	diagnosis.Describe(all)
	return http.StatusOK, all, nil
}

// reached notes what a proxy says of itself: it is newer than what the ledger has.
func (q *question) reached(id string, s *api.Stats) {
	for i := range q.fleet.Proxies {
		if p := &q.fleet.Proxies[i]; p.ID == id {
			p.Reachable, p.Sessions, p.Version, p.Configuration = true, int(s.Sessions.Active), s.Version, s.Configuration.Version
			switch {
			case s.Draining:
				p.State = api.ProxyDraining
			case p.State == api.ProxyUnseen: // it is cut off from the ledger
				p.State = api.ProxyServing
			}
		}
	}
}

// noteMissing says of each proxy that has not answered why.
func (q *question) noteMissing() {
	for i := range q.fleet.Proxies {
		p := &q.fleet.Proxies[i]
		for k := range q.others {
			if a := &q.others[k]; a.id == p.ID && a.why != "" {
				p.Problem = a.why
			}
		}
	}
}

// mergeProxies says which of the proxies can be reached. They were asked for what they know of the fleet.
func mergeProxies(q *question) (int, any, error) {
	for a, f := range values[api.Fleet](q) {
		for k := range q.fleet.Proxies {
			if p := &q.fleet.Proxies[k]; p.ID == a.id {
				p.Reachable = true
				if me := f.Self(); me != nil {
					p.State, p.Sessions, p.Configuration = me.State, me.Sessions, me.Configuration
				}
			}
		}
	}
	q.noteMissing()
	q.fleet.Missing, q.fleet.Whole = q.missing(""), true
	if me := q.fleet.Self(); me != nil {
		me.Reachable = true
	}
	return http.StatusOK, q.fleet, nil
}

func mergeSessions(q *question) (int, any, error) {
	query, err := api.ParseSessionQuery(q.request.URL.Query())
	if err != nil {
		return 0, nil, err
	}
	var list api.SessionList
	if err := json.Unmarshal(q.body, &list); err != nil {
		return 0, nil, err
	}
	name(list.Sessions, q.self)
	for a, l := range values[api.SessionList](q) {
		name(l.Sessions, a.name)
		list.Sessions, list.Matched, list.Total = append(list.Sessions, l.Sessions...), list.Matched+l.Matched, list.Total+l.Total
		if query.Limit > 0 {
			list.Sessions, _ = query.Choose(list.Sessions)
			a.passed = true
		}
	}
	list.Sessions, _ = query.Choose(list.Sessions)
	list.Missing = q.missing("its sessions are not known")
	return http.StatusOK, list, nil
}

// name says which proxy serves sessions.
func name(sessions []api.Session, proxy string) {
	for i := range sessions {
		sessions[i].Proxy = proxy
	}
}

// mergeOutcomes is about actions at all proxies.
func mergeOutcomes(q *question) (int, any, error) {
	var own api.Outcome
	if err := json.Unmarshal(q.body, &own); err != nil {
		return 0, nil, err
	}
	mine := api.ProxyOutcome{Name: q.self, Text: own.Text, Sessions: own.Sessions}
	if me := q.fleet.Self(); me != nil {
		mine.ID = me.ID
	}
	done := q.status/100 == 2
	if !done {
		var failure api.Failure
		if err := json.Unmarshal(q.body, &failure); err != nil {
			return 0, nil, err
		}
		mine.Text, mine.Failed = failure.Error.Text, isFailure(failure.Error.Kind)
	}
	all := api.Outcome{Proxies: []api.ProxyOutcome{mine}, Sessions: own.Sessions}
	for a := range q.each {
		o, ok := decode[api.Outcome](a)
		switch {
		case ok:
			all.Proxies = append(all.Proxies, api.ProxyOutcome{ID: a.id, Name: a.name, Text: o.Text, Sessions: o.Sessions})
			all.Sessions += o.Sessions
			done = true
		case a.refused != nil:
			all.Proxies = append(all.Proxies, api.ProxyOutcome{ID: a.id, Name: a.name, Text: a.refused.Text, Failed: isFailure(a.refused.Kind)})
		}
	}
	all.Missing = q.missing("it may not have been done there")
	if !done { // none of them could do it
		return q.status, q.failure(all.Missing), nil
	}
	if len(q.others) == 0 {
		all.Proxies = nil
	}
	all.Text = own.Text
	if len(all.Proxies) > 0 {
		var lines []string
		for _, o := range all.Proxies {
			lines = append(lines, o.Name+": "+o.Text)
		}
		all.Text = strings.Join(lines, "\n")
	}
	return http.StatusOK, all, nil
}

// isFailure reports whether an action that a proxy refused with this kind of error is not done there. A service that is paused
// already is paused.
func isFailure(kind string) bool { return kind != api.KindState }

// mergeMoving is about orders to move the sessions of a backend.
func mergeMoving(q *question) (int, any, error) {
	all := api.Moving{Done: true, Sessions: []api.MovingSession{}}
	found := false
	take := func(m *api.Moving, proxy string) {
		for i := range m.Sessions {
			m.Sessions[i].Proxy = proxy
		}
		if !found {
			all.Backend, all.Begun, all.Deadline = m.Backend, m.Begun, m.Deadline
		}
		found = true
		all.Done, all.Replaced = all.Done && m.Done, all.Replaced || m.Replaced
		all.Sessions = append(all.Sessions, m.Sessions...)
	}
	if q.status/100 == 2 {
		var own api.Moving
		if err := json.Unmarshal(q.body, &own); err != nil {
			return 0, nil, err
		}
		take(&own, q.self)
	}
	for a := range q.each {
		if m, ok := decode[api.Moving](a); ok {
			take(&m, a.name)
		} else if a.refused != nil && a.refused.Kind != api.KindUnknown {
			a.why = a.refused.Text
		}
	}
	all.Missing = q.missing("its sessions are not known")
	if !found {
		return q.status, q.failure(all.Missing), nil
	}
	return http.StatusOK, all, nil
}

// mergeOne is about one session, which one proxy at most has.
func mergeOne(q *question) (int, any, error) {
	var own api.SessionDetail
	if q.request.Method == http.MethodGet && len(pathParts(q.request)) == 2 && q.status == http.StatusOK && json.Unmarshal(q.body, &own) == nil {
		own.Proxy = q.self
		return q.status, own, nil
	}
	var (
		hit  *answer
		body json.RawMessage
	)
	for a := range q.each {
		if hit == nil && a.why == "" && a.refused == nil {
			hit, body = a, a.body
		}
	}
	if q.status != http.StatusNotFound || hit == nil {
		for i := range q.others { // a session that has ended already, say
			if r := q.others[i].refused; q.status == http.StatusNotFound && r != nil && r.Kind != api.KindUnknown {
				return r.Status, json.RawMessage(r.Body), nil
			}
		}
		return q.status, q.failure(q.missing("its sessions are not known")), nil
	}
	if q.request.Method != http.MethodGet || strings.HasSuffix(q.request.URL.Path, "/move") {
		return http.StatusOK, body, nil
	}
	hit.body = body
	detail, ok := decode[api.SessionDetail](hit)
	if !ok {
		return q.status, q.failure(q.missing("its sessions are not known")), nil
	}
	detail.Proxy = hit.name
	return http.StatusOK, detail, nil
}

// failure returns this proxy's answer, which is an error, with the proxies that may know better.
func (q *question) failure(missing []api.MissingProxy) json.RawMessage {
	var failure api.Failure
	if q.status/100 == 2 || json.Unmarshal(q.body, &failure) != nil {
		return q.body
	}
	for i := range q.others { // another proxy may know a name or id that is more like the unknown one
		if r := q.others[i].refused; r != nil && failure.Error.Nearest == "" && r.Nearest != "" {
			text, _, _ := strings.Cut(failure.Error.Text, ": ")
			failure.Error.Nearest, failure.Error.Text = r.Nearest, fmt.Sprintf("%s: did you mean %q?", text, r.Nearest)
		}
	}
	for i := range missing {
		failure.Error.Text += "; " + missing[i].String()
	}
	body, err := json.MarshalIndent(failure, "", "  ")
	if err != nil {
		panic(err) // it has nothing but texts
	}
	return body
}
