package diagnosis

import (
	"cmp"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ofConfiguration reports whether the source of the configuration fails.
func ofConfiguration(f *Facts, found *findings) {
	c := &f.Stats.Configuration
	kind := ConfigurationStale
	switch c.State {
	case "current", "":
		return
	case "copied":
		kind = ConfigurationCopied
	}
	p := found.add(kind, subject{what: "configuration"}, "%s: %s", c.State, cmp.Or(c.Reason, "the store fails"))
	p.Since, p.Cure = c.Since, "wsbouncer config history"
}

// ofDiscovery reports which DNS names of backends cannot be used.
func ofDiscovery(f *Facts, found *findings) {
	for i := range f.Stats.Discovery {
		d := &f.Stats.Discovery[i]
		about := subject{"backend " + d.Backend, d.Service, d.Backend}
		switch {
		case d.Failing.IsZero():
		case d.Servers == 0:
			found.add(BackendNoServers, about, "it has no servers: %s", d.Reason).Since = d.Failing
		default:
			found.add(BackendLookup, about, "DNS lookups fail, %s %s: %s", figures.Plural(d.Servers, "known server"), verb(d.Servers, "stays", "stay"), d.Reason).Since = d.Failing
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
		c := &f.Stats.TLS.Certificates[i]
		about := subject{what: "certificate " + c.File}
		at := c.NotAfter.UTC().Format(time.RFC3339)
		switch c.State {
		case api.CertificateExpired:
			found.add(CertificateExpired, about, "it has expired at %s: clients refuse it", at).Since = c.NotAfter
		case api.CertificateExpiring:
			found.add(CertificateExpiring, about, "it expires at %s: renew it", at)
		case api.CertificateMissing:
			if c.Failure == "" {
				found.add(CertificateMissing, about, "the authority has not issued it yet: clients that ask for the name fail")
			}
		}
		if c.Failure != "" {
			found.add(CertificateRefused, about, "the authority does not issue it: %s", c.Failure)
		}
	}
	if t := f.Stats.TLS; t.Failure != "" {
		found.add(TLSFiles, subject{what: "TLS"}, "files are bad, and what was read before stays in force: %s", t.Failure).Since = t.FailureSince
	}
}
