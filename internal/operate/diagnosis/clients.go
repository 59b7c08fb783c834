package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// maxLimitFindings is how many limits are named. A flood from many addresses must not hide everything else.
const maxLimitFindings = 5

// ofLimits reports which limits are being reached, those that are reached most often first.
func ofLimits(f *Facts, found *findings) {
	lately := slices.Clone(f.Recent.Limits)
	slices.SortStableFunc(lately, func(a, b api.LimitReached) int { return cmp.Compare(b.Count, a.Count) })
	for _, r := range lately[:min(len(lately), maxLimitFindings)] {
		about := subject{what: strings.TrimSpace(r.Scope + " " + r.Name)}
		switch r.Scope {
		case "process":
			about = theProxy
		case "service":
			about = service(r.Name)
		}
		k := slices.IndexFunc(found.all, func(p api.Problem) bool { return p.Kind == string(LimitReached) && p.What == about.what })
		if k >= 0 { // one problem for all limits of one tenant or client
			found.all[k].Text += fmt.Sprintf(", and its %s %s", r.Limit, figures.Plural(int(r.Count), "time"))
			continue
		}
		p := found.add(LimitReached, about, "it has reached its %s %s since this began", r.Limit, figures.Plural(int(r.Count), "time"))
		p.Since = r.Since
		if (r.Scope == "service" || r.Scope == "tenant") && isWord(r.Name) {
			p.Cure = fmt.Sprintf("wsbouncer %s show %s", r.Scope, r.Name)
		}
	}
	if n := len(lately) - maxLimitFindings; n > 0 {
		found.add(LimitReached, subject{what: "clients"}, "%s reached, too", figures.Plural(n, "other limit")+verb(n, " is", " are"))
	}
}

// isWord reports whether a name can stand in a command as it is. That of a tenant may be what a client's token says.
func isWord(name string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_."
	return name != "" && name[0] != '-' && strings.Trim(name, plain+"-") == ""
}

// OfOneClient reports whether a problem is that one client (an address, a subject or a key) reaches its own limits.
func OfOneClient(p *api.Problem) bool {
	return p.Kind == string(LimitReached) && (strings.HasPrefix(p.What, "client ") || strings.HasPrefix(p.What, "key "))
}

// When refusals and failures are worth a word: there are some, and they are more than a small part. Strangers who ask for what does not exist
// are more common than clients that the proxy failed.
const (
	fewFailed, partFailed   = 3, 0.05
	fewUnserved, partUnserv = 3, 0.01
	fewRefused, partRefused = 10, 0.1
)

// ofClients reports what clients got lately, unless another problem explains it.
func ofClients(f *Facts, found *findings) {
	r := &f.Recent
	if failed := enough(r.Failed, r.Began, fewFailed, partFailed); failed && explainsFailures(f, found) {
		hurtByFailures(found)
	} else if failed {
		found.add(SessionsFailing, theProxy, "%s failed in the last minute, %d began", figures.Plural(int(r.Failed), "session"), r.Began).
			Cure = "wsbouncer session ls --state ended"
	}
	all := r.Began
	for _, n := range r.Refused {
		all += n
	}
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(r.Refused)) {
		n := r.Refused[status]
		ours := status >= http.StatusInternalServerError
		if explainsRefusals(f, found, status) || ours && !enough(n, all, fewUnserved, partUnserv) || !ours && !enough(n, all, fewRefused, partRefused) {
			continue
		}
		texts = append(texts, fmt.Sprintf("%d with %d %s", n, status, meaning(status)))
	}
	if len(texts) > 0 {
		found.add(Refusals, theProxy, "clients were refused in the last minute: %s", strings.Join(texts, ", "))
	}
}

// enough reports whether n of all are worth a word.
func enough(n, all uint64, few uint64, part float64) bool {
	return n >= few && float64(n) >= part*float64(all)
}

// meaning says in brackets what a status means to clients.
func meaning(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "(no valid credential)"
	case http.StatusForbidden:
		return "(credential or origin not allowed)"
	case http.StatusNotFound:
		return "(no service for the path)"
	case http.StatusUpgradeRequired:
		return "(no WebSocket request)"
	case http.StatusServiceUnavailable:
		return "(no connection came free)"
	}
	return "(" + http.StatusText(status) + ")"
}

// held reports whether a problem of one of these kinds was found, or has held within the time that the counts are of.
func held(f *Facts, found *findings, kinds ...Kind) bool {
	return found.has("", kinds...) || slices.ContainsFunc(f.Recent.Held, func(k Kind) bool { return slices.Contains(kinds, k) })
}

// explainsRefusals reports whether a problem was found that has clients refused with a status.
func explainsRefusals(f *Facts, found *findings, status int) bool {
	switch status {
	case http.StatusServiceUnavailable:
		return held(f, found, ServiceDown, ServiceQueueFull, TenantFillsQueue, ServiceWaiting, ServicePaused, ProxyDraining, Shortage, FleetWaiting, LimitReached)
	case http.StatusTooManyRequests:
		return held(f, found, LimitReached)
	}
	return false
}

// failing are the kinds of problems that have sessions fail.
var failing = []Kind{
	ServiceDown, ServiceDegraded, BackendHung, BackendStalled, BackendRefusing, BackendWrongProtocol, BackendUnreachable, BackendFailing,
	BackendEjected, BackendFlapping, BackendProbe, BackendCanary, FailoverFailed, Shortage, InternalError, ProxyDraining,
}

// explainsFailures reports whether a problem was found that has sessions fail.
func explainsFailures(f *Facts, found *findings) bool { return held(f, found, failing...) }

// hurtByFailures notes that servers which are out of service have just cost clients their sessions. One that is in health again costs none.
func hurtByFailures(found *findings) {
	for i := range found.all {
		if p := &found.all[i]; p.Level == api.LevelFailure && p.Hurts == api.HurtsSoon && Kind(p.Kind) != BackendFlapping && slices.Contains(failing, Kind(p.Kind)) {
			p.Hurts = api.HurtsClients
		}
	}
}
