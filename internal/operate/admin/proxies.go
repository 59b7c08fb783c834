package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Proxies is what the API shows of the fleet, and does to it. The functions may be called from any goroutine at any time.
type Proxies struct {
	// Fleet returns what this proxy knows of the fleet. It waits for nothing.
	Fleet func() api.Fleet
	// Grants returns what the proxy with an id has of each server, by server, as far as this proxy knows.
	Grants func(id string) []api.ProxyGrant
	// Forget removes the proxy with an id from the ledger: its places are free.
	Forget func(ctx context.Context, id string) error
}

// recentlySeen is for how long after it was seen a proxy is forgotten only by force: one that runs is seen each second.
const recentlySeen = 3 * time.Second

func (s *Source) proxyRoutes() []route {
	return []route{
		{path: api.ProxiesPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			return s.Proxies.Fleet(), nil
		})}},
		{path: api.ProxiesPath + "/{id}", methods: methods{http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			found, err := s.Proxies.find(r.PathValue("id"))
			if err != nil {
				return nil, err
			}
			found.Grants = s.Proxies.Grants(found.ID)
			return found, nil
		})}},
		{path: api.ProxiesPath + "/{id}/forget", action: "forget", methods: methods{http.MethodPost: served(s.forget, "force")}},
	}
}

// find returns the one proxy that an id or a name means.
func (p *Proxies) find(text string) (*api.Proxy, error) {
	f := p.Fleet()
	switch found := f.Find(text); len(found) {
	case 1:
		return found[0], nil
	case 0:
		var known []string
		for i := range f.Proxies {
			known = append(known, f.Proxies[i].Name)
		}
		return nil, Unknown("proxy", text, known)
	default:
		var ids []string
		for _, one := range found {
			ids = append(ids, fmt.Sprintf("%s (%s)", one.ID, one.State))
		}
		slices.Sort(ids)
		return nil, WrongState("%d proxies have the name %q: use the id of one: %s", len(found), cut(text), strings.Join(ids, ", "))
	}
}

// forget removes a proxy from the ledger.
func (s *Source) forget(w http.ResponseWriter, r *http.Request) (any, error) {
	force := r.URL.Query().Get("force")
	if force != "" && force != "true" && force != "false" {
		return nil, BadRequest("force: invalid value %.40q: use true or false", force)
	}
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	found, err := s.Proxies.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	seen := time.Duration(found.SeenSeconds * float64(time.Second))
	switch {
	case found.Self:
		return nil, WrongState("%s is this proxy: it runs", found.Name)
	case seen < recentlySeen && force != "true":
		return nil, WrongState("%s was seen %.1f s ago, so it runs: end it first. With force=true, it is forgotten all the same, and servers may see %s than their caps",
			found.Name, found.SeenSeconds, excess(found.Places))
	}
	if err := s.Proxies.Forget(r.Context(), found.ID); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s (%s) is forgotten: %s", found.Name, found.ID, freed(found.Places))
	s.Audit.Note(r, "forget", found.Name, order, text)
	return api.Outcome{Text: text}, nil
}

// excess says how many connections above their caps servers may see, if a proxy with these places is forgotten and runs nevertheless.
func excess(places int) string {
	if places == 1 {
		return "1 connection more"
	}
	return fmt.Sprintf("up to %d connections more", places)
}

// freed says how many places are free.
func freed(places int) string {
	switch places {
	case 0:
		return "it held no places"
	case 1:
		return "its place is free"
	}
	return fmt.Sprintf("its %d places are free", places)
}
