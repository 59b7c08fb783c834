package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// FixedService is the name of the only service in flags-only operation.
const FixedService = "default"

// fixed is the configuration that flags describe; it has one service.
type fixed struct {
	content config.Content
	given   map[string]*givenBackend // by the backends' names
	names   []string                 // of the backends, in the order of the flags
}

// fixed returns the configuration that the flags describe, and reports what is wrong with it in terms of flags.
func (s *Settings) fixed(bad complaint) *fixed {
	f := &fixed{content: config.NewContent(), given: make(map[string]*givenBackend)}
	f.content.Services[FixedService] = s.Service
	f.readProfiles(s.ProfileFiles, bad)
	if len(s.Backends) == 0 {
		bad("backend", "no backend: give at least one, such as ws://127.0.0.1:9001")
	}
	fine := len(s.Backends) > 0
	for _, text := range s.Backends {
		given, err := s.parseBackend(text)
		if err != nil {
			bad("backend", "%v", err)
			fine = false
			continue
		}
		name := backendName(given.URL, f.content.Backends)
		f.content.Backends[name], f.given[name] = given.Backend, given
		f.names = append(f.names, name)
	}
	f.check(fine, bad)
	return f
}

// references returns the secrets that the flags refer to.
func (f *fixed) references() (all []string) {
	for _, b := range f.content.Backends {
		references, _ := secret.References(b.URL, b.Headers)
		all = append(all, references...)
	}
	return all
}

// readProfiles adds the profiles from files.
func (f *fixed) readProfiles(files []string, bad complaint) {
	if _, err := Profiles(files); err != nil {
		bad("profile-file", "%v", err)
		return
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			bad("profile-file", "%v", err)
			continue
		}
		own, err := file.Decode(path, data, nil)
		if err != nil {
			bad("profile-file", "%v", err)
			continue
		}
		for name, profile := range own.Profiles {
			f.content.Profiles[name] = profile
		}
	}
}

// check reports each error once, since a wrong setting for all backends is wrong for each of them. It reports conflicts between
// backends only if each backend by itself is valid.
func (f *fixed) check(fine bool, bad complaint) {
	_, err := f.draft()
	if err == nil {
		return
	}
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		bad("profile", "%v", err)
		return
	}
	var said []string
	say := func(flag, text string) {
		if line := flag + text; !slices.Contains(said, line) {
			said = append(said, line)
			bad(flag, "%s", text)
		}
	}
	for _, p := range problems {
		p.Text = strings.Replace(p.Text, " of the service "+FixedService, "", 1) // flags do not name the service
		given := f.given[p.Name]
		switch {
		case p.Kind != config.KindBackend && p.Field != "":
			say(p.Field, p.Text)
		case p.Kind != config.KindBackend:
			if fine {
				say("backend", p.Text)
			}
		case given == nil || p.Field == "url":
			say("backend", p.Text)
		case slices.Contains(given.own, p.Field) || p.Field == "warm" && slices.Contains(given.own, "connections"):
			say("backend", fmt.Sprintf("%q: %s: %s", given.text, p.Field, p.Text))
		default:
			say(p.Field, p.Text)
		}
	}
}

// draft returns the plan for the configuration if it can be put in force.
func (f *fixed) draft() (draft services.Draft, err error) {
	snapshot, err := config.NewSnapshot("0", &f.content, config.CheckProfiles)
	if err != nil {
		return draft, err
	}
	if draft, err = services.NewDraft(snapshot); err != nil {
		return draft, err
	}
	return draft, draft.Check()
}

// draft returns what the flags describe, and the plan for it. The settings must have no database.
func (s *Settings) draft() (fixed *fixed, draft services.Draft, err error) {
	if fixed, err = s.check(); err == nil {
		draft, err = fixed.draft()
	}
	return fixed, draft, err
}

// FailoverWarnings returns what is likely to be wrong in the flags' settings of failover.
func (s *Settings) FailoverWarnings() []string {
	_, draft, err := s.draft()
	if err != nil {
		return nil
	}
	warnings := draft.FailoverWarnings()
	for i, text := range warnings { // flags do not name the service
		warnings[i] = strings.Replace(text, "the service "+FixedService+" has ", "the flags give ", 1)
	}
	return warnings
}

// backendName returns a name for a backend that has only a URL: ws://10.0.0.5:2700/stt is 10.0.0.5-2700-stt.
func backendName(url string, taken map[string]config.Backend) string {
	const most = 50
	_, text, _ := strings.Cut(url, "://")
	text, _, _ = strings.Cut(text, "?")
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, text), "-._")
	if name = name[:min(len(name), most)]; name == "" {
		name = "backend"
	}
	unique := name
	for n := 2; ; n++ {
		if _, ok := taken[unique]; !ok {
			return unique
		}
		unique = fmt.Sprintf("%s-%d", name, n)
	}
}
