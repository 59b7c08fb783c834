package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// opened returns the authentication that a change takes away, in words: that of services, of what clients ask for, and of servers,
// whatever the services that have them are called before and after.
func opened(now, to *config.Content) (all []string) {
	if !slices.ContainsFunc(now.Names(config.KindService), func(name string) bool { return protects(now, name) }) {
		return nil
	}
	lost := make(map[string]bool) // services that stay, without authentication
	for _, name := range now.Names(config.KindService) {
		if _, stays := to.Services[name]; stays && protects(now, name) && !protects(to, name) {
			lost[name] = true
			all = append(all, "the authentication of the service "+name)
		}
	}
	old, fresh := routesOf(now), routesOf(to)
	for _, r := range requests(now, to) {
		before, after := old.serving(r), fresh.serving(r)
		if before == "" || after == "" || before == after && lost[before] || !protects(now, before) || protects(to, after) {
			continue
		}
		all = append(all, fmt.Sprintf("the authentication of %s (the service %s serves it without)", r, after))
	}
	servers := reachableIn(now)
	for _, name := range to.Names(config.KindBackend) {
		b := to.Backends[name]
		service := b.Service
		if !to.Has(config.KindService, service) || protects(to, service) {
			continue
		}
		if from := servers.onlyProtected(name, &b); len(from) > 0 && !(lost[service] && slices.Contains(from, service)) {
			all = append(all, fmt.Sprintf("the authentication of the backend %s (clients of the service %s reach it without)", name, service))
		}
	}
	return all
}

func protects(content *config.Content, service string) bool {
	s := content.Services[service]
	return len(s.AuthMethods()) > 0
}

// reachable says through which services servers are reached.
type reachable struct{ protected, open map[string][]string }

// reachableIn returns that of a content's backends, each under its name, its server and the address of that.
func reachableIn(content *config.Content) reachable {
	r := reachable{make(map[string][]string), make(map[string][]string)}
	for _, name := range content.Names(config.KindBackend) {
		b := content.Backends[name]
		to := r.open
		if protects(content, b.Service) {
			to = r.protected
		}
		for _, key := range keysOf(name, &b) {
			to[key] = append(to[key], b.Service)
		}
	}
	return r
}

func keysOf(name string, b *config.Backend) [3]string {
	address, _ := config.AddressOf(b.URL)
	return [...]string{"name " + name, "server " + config.ServerOf(b.URL), "address " + address}
}

// onlyProtected returns the services through which a backend or another one of its server was reached, if all of them had authentication;
// none if it was not reached or without.
func (r reachable) onlyProtected(name string, b *config.Backend) (from []string) {
	keys := keysOf(name, b)
	if len(r.open[keys[0]])+len(r.open[keys[1]]) == 0 {
		from = slices.Concat(r.protected[keys[0]], r.protected[keys[1]])
	}
	if len(r.open[keys[2]]) == 0 {
		from = append(from, r.protected[keys[2]]...)
	}
	return from
}

// request is what a client asks for: a host, empty for one that no service names, and a path, likewise.
type request struct{ host, path string }

// below stands for any path below another one.
const below = "/*"

// String returns the request in words.
func (r request) String() string {
	switch {
	case r.host == "" && r.path == "":
		return "other paths"
	case r.host == "":
		return "the path " + r.path
	case r.path == "":
		return "other paths of the host " + r.host
	}
	return "the path " + r.path + " of the host " + r.host
}

// requests returns what clients may ask for as far as the services of two contents tell it apart.
func requests(contents ...*config.Content) (all []request) {
	hosts, paths := map[string]bool{"": true}, map[string]bool{"": true}
	for _, content := range contents {
		for _, s := range content.Services {
			hosts[s.Host], paths[s.Path] = true, true
			if passesPath(&s) {
				paths[strings.TrimRight(s.Path, "/")+below] = true
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			all = append(all, request{host, path})
		}
	}
	return all
}

// routes are the services of a content by what they answer.
type routes struct{ exact, prefixes map[request]string }

func routesOf(content *config.Content) routes {
	r := routes{make(map[request]string), make(map[request]string)}
	for name, s := range content.Services {
		r.exact[request{s.Host, s.Path}] = name
		if passesPath(&s) {
			r.prefixes[request{s.Host, strings.TrimRight(s.Path, "/")}] = name
		}
	}
	return r
}

// serving returns the service that answers a request; empty for none. A service of the request's host comes before one of any host, and
// one of its path before one with the longest prefix of it, and that before one of any path.
func (r routes) serving(asked request) string {
	for _, host := range slices.Compact([]string{asked.host, ""}) {
		if name, ok := r.exact[request{host, asked.path}]; ok && asked.path != "" {
			return name
		}
		for path := asked.path; ; path = path[:strings.LastIndexByte(path, '/')] {
			if name, ok := r.prefixes[request{host, path}]; ok {
				return name
			}
			if !strings.Contains(path, "/") {
				break
			}
		}
		if name, ok := r.exact[request{host, ""}]; ok {
			return name
		}
	}
	return ""
}

// passesPath reports whether a service answers the paths below its own, too.
func passesPath(s *config.Service) bool { return s.Path != "" && slices.Contains(s.Pass, "path") }
