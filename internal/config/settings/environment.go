package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

const prefix = "WSBOUNCER_"

// Variable returns the name of a setting's environment variable.
func Variable(name string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// FileVariable names the file if the flag --settings does not, and oldFileVariable is what it was called.
const (
	FileVariable    = prefix + "SETTINGS"
	oldFileVariable = prefix + "CONFIG"
)

// Variables for commands that talk to a proxy, and no settings: authorityVariable, and ContextsVariable for the file with names of proxies.
const (
	authorityVariable = prefix + "ADMIN_CA"
	ContextsVariable  = prefix + "CONTEXTS"
)

// secretPrefix begins the names of variables that backends may refer to by default.
const secretPrefix = prefix + "SECRET_"

// injected are variables that Kubernetes sets in every container when a service is named wsbouncer, or wsbouncer-admin
// and the like (https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables).
var injected = regexp.MustCompile(`^` + prefix + `([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// namesProxy reports whether a text is the address of a running proxy for commands, and none to listen on: they share the variable.
func namesProxy(text string) bool {
	return slices.ContainsFunc([]string{"unix:", "http://", "https://", "@"}, func(scheme string) bool { return strings.HasPrefix(text, scheme) })
}

// environment returns the variables that begin with our prefix.
func environment(all []string) map[string]string {
	own := make(map[string]string)
	for _, entry := range all {
		if name, text, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, prefix) {
			own[name] = text
		}
	}
	return own
}

// environment applies the settings of the environment.
func (l *loading) environment(all []string) {
	own := environment(all)
	for i := range l.rows {
		s := &l.rows[i]
		name := Variable(s.name)
		text, ok := own[name]
		if !ok {
			continue
		}
		delete(own, name)
		if s.name == "admin" && namesProxy(text) {
			l.notes = append(l.notes, name+" is for commands here, since it names a running proxy: serve ignores it, which does no harm")
			continue
		}
		texts := []string{text}
		switch {
		case s.isList() && text == "":
			texts = nil
		case s.isList():
			texts = strings.Split(text, ",")
			for i := range texts {
				texts[i] = strings.TrimSpace(texts[i])
			}
		case s.token != nil && text != "" && !isReference(text):
			texts = []string{"env:" + name} // so that the settings hold a reference, never the token itself
		}
		l.set(s, name, name+": ", texts)
	}
	gone := Removed()
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if _, given := own[Variable(name)]; given {
			delete(own, Variable(name))
			l.bad("%s: %w", Variable(name), gone[name])
		}
	}
	delete(own, FileVariable)
	delete(own, oldFileVariable)
	delete(own, authorityVariable)
	delete(own, ContextsVariable)
	for name := range own {
		if injected.MatchString(name) || strings.HasPrefix(name, secretPrefix) {
			continue
		}
		text := fmt.Sprintf("unknown environment variable %s", name)
		given := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", "-")
		if near := spelling.Nearest(given, append(Names(), settingsFlag)); near != "" {
			text += ": did you mean " + Variable(near) + "?"
		}
		l.warnings = append(l.warnings, text)
	}
	slices.Sort(l.warnings)
}
