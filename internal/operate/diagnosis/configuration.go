package diagnosis

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ofConfiguration reports whether the source of the configuration fails, and whether a start without it would go by an old copy.
func ofConfiguration(f *Facts, found *findings) {
	c := &f.Stats.Configuration
	if c.Unsaved != "" {
		p := found.add(ConfigurationUnsaved, subject{what: "configuration"}, "its copy on disk is out of date: %s. If the proxy restarts while the database is away, "+
			"earlier changes, such as revoked keys, are undone", c.Unsaved)
		p.Since = c.UnsavedSince
	}
	kind := ConfigurationStale
	switch c.State {
	case "current", "":
		return
	case "copied":
		kind = ConfigurationCopied
	default:
		if ledger := f.Stats.Fleet; sameDatabase(f.Stats) && ledger.Problem != "" && ledger.Mode != api.FleetAlone {
			return // ofFleet names the outage of both, which is worse
		}
	}
	p := found.add(kind, subject{what: "configuration"}, "%s: %s. What was read before stays in force, and changes are taken once the database can be read and is valid",
		c.State, cmp.Or(f.Recent.StoreReason, c.Reason, "the store fails"))
	p.Since, p.Cure = c.Since, commandOnStore(c.Source)
}

// sameDatabase reports whether the ledger of the fleet is in the database of the configuration.
func sameDatabase(s *api.Stats) bool {
	return s.Fleet != nil && s.Fleet.Ledger != "" && s.Fleet.Ledger == s.Configuration.Source
}

// commandOnStore returns the command that shows whether a database can be used, by its name without a password; empty if there is none.
func commandOnStore(name string) string {
	switch scheme, _, isURL := strings.Cut(name, "://"); {
	case isURL && strings.HasPrefix(scheme, "postgres"):
		return "pg_isready --dbname '" + strings.ReplaceAll(name, "'", "%27") + "'" // it needs no password
	case name == "" || isURL:
		return ""
	}
	return "wsbouncer check --database " + strings.TrimPrefix(name, "sqlite:")
}

// ofDiscovery reports which names of backends cannot be used.
func ofDiscovery(f *Facts, found *findings) {
	for i := range f.Stats.Discovery {
		d := &f.Stats.Discovery[i]
		about := subject{"backend " + d.Backend, d.Service, d.Backend}
		switch {
		case d.Failing.IsZero():
		case d.Servers == 0:
			found.add(BackendNoServers, about, "it has no servers: %s", d.Reason).Since = d.Failing
		default:
			found.add(BackendLookup, about, "lookups of its servers fail, %s %s: %s", figures.Plural(d.Servers, "known server"), verb(d.Servers, "stays", "stay"), d.Reason).Since = d.Failing
		}
		if len(d.LeftOut) > 0 {
			found.add(BackendAddresses, about, "addresses of %s are not used: %s", d.Host, strings.Join(d.LeftOut, "; "))
		}
	}
}

// ofCertificates finds certificates that expire, and files that cannot be used.
func ofCertificates(f *Facts, found *findings) {
	if f.Stats.TLS == nil {
		return
	}
	for i := range f.Stats.TLS.Certificates {
		ofCertificate(f, &f.Stats.TLS.Certificates[i], found)
	}
	if t := f.Stats.TLS; t.Failure != "" {
		found.add(TLSFiles, subject{what: "TLS"}, "files are bad, and what was read before stays in force: %s", t.Failure).Since = t.FailureSince
	}
}

func ofCertificate(f *Facts, c *api.Certificate, found *findings) {
	about, users := subject{what: "certificate " + c.File}, "clients"
	if c.Listener != "" {
		about.what += " of the " + c.Listener
		users = "commands, browsers and other proxies"
	}
	at := c.NotAfter.UTC().Format(time.RFC3339)
	name, issued := strings.CutPrefix(c.File, api.IssuedPrefix)
	renew, cure := "Replace the file with a renewed one: the proxy takes it within seconds", "openssl x509 -noout -subject -issuer -dates -in "+c.File
	if issued {
		renew, cure = "The proxy tries to renew it by itself", "dig +short "+name
	}
	add := func(kind Kind, format string, args ...any) *api.Problem {
		p := found.add(kind, about, format, args...)
		if p.Cure = cure; c.Listener != "" { // no client of a service sees it
			p.Level, p.Hurts = api.LevelWarning, api.HurtsOperator
		}
		return p
	}
	switch c.State {
	case api.CertificateExpired:
		refused := ""
		if n := f.Recent.TLSRefused; n > 0 && c.Listener == "" {
			refused = fmt.Sprintf(", as in %s of the last minute", figures.Plural(int(n), "TLS handshake"))
		}
		add(CertificateExpired, "it expired at %s: %s that check it refuse it%s. %s", at, users, refused, renew).Since = c.NotAfter
	case api.CertificateNotYet:
		add(CertificateExpired, "it is not valid before %s: %s that check it refuse it. Check this machine's clock, or use another certificate",
			c.NotBefore.UTC().Format(time.RFC3339), users)
	case api.CertificateExpiring:
		add(CertificateExpiring, "it expires at %s. %s", at, renew)
	case api.CertificateMissing:
		if c.Failure == "" {
			add(CertificateMissing, "the authority has not issued it yet: clients that ask for the name fail")
		}
	}
	if c.Failure != "" {
		add(CertificateRefused, "the authority does not issue it: %s", c.Failure)
	}
}
