package diagnosis

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ofTLS finds certificates that expire, and files that cannot be used.
func ofTLS(s *api.Stats, add func(Level, string, time.Time, string, ...any)) {
	for i := range s.TLS.Certificates {
		c := &s.TLS.Certificates[i]
		at := c.NotAfter.UTC().Format(time.RFC3339)
		switch c.State {
		case api.CertificateExpired:
			add(Failure, "certificate "+c.File, c.NotAfter, "it has expired at %s: clients refuse it", at)
		case api.CertificateExpiring:
			add(Warning, "certificate "+c.File, time.Time{}, "it expires at %s: renew it", at)
		case api.CertificateMissing:
			if c.Failure == "" {
				add(Warning, "certificate "+c.File, time.Time{}, "the authority has not issued it yet: clients that ask for the name fail")
			}
		}
		if c.Failure != "" {
			add(Failure, "certificate "+c.File, time.Time{}, "the authority does not issue it: %s", c.Failure)
		}
	}
	if s.TLS.Failure != "" {
		add(Failure, "TLS", s.TLS.FailureSince, "files are bad, and what was read before stays in force: %s", s.TLS.Failure)
	}
}
