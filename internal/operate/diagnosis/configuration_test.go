package diagnosis

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// certificate has one certificate.
func certificate(c api.Certificate) func(*Facts) {
	return func(f *Facts) { f.Stats.TLS = &api.TLS{Certificates: []api.Certificate{c}} }
}

var configurationScenes = map[string]scene{
	"the database is away": {
		func(f *Facts) {
			f.Stats.Configuration = api.Configuration{State: "stale", Reason: "disk on fire", Since: since}
		},
		"configuration-stale configuration: stale: disk on fire. What was read before stays in force, and changes are taken once the database can be read and is valid (12:00)",
	},
	"the database was never there": {
		func(f *Facts) { f.Stats.Configuration = api.Configuration{State: "copied", Since: since} },
		"configuration-copied configuration: copied: the store fails. What was read before stays in force, and changes are taken once the database can be read and is valid (12:00)",
	},
	"no copy can be written": {
		func(f *Facts) { f.Stats.Configuration.Unsaved, f.Stats.Configuration.UnsavedSince = "disk full", since },
		"configuration-unsaved configuration: its copy on disk is out of date: disk full. If the proxy restarts while the database is away, earlier changes, such as revoked keys, are undone (12:00)",
	},
	"DNS fails": {func(f *Facts) {
		f.Stats.Discovery = []api.Discovery{{Backend: "gpu", Service: "stt", Servers: 3, Failing: since, Reason: "no such host", LeftOut: []string{"0.0.0.0:1: why"}, Host: "stt.svc"}}
	}, "backend-lookup backend gpu: lookups of its servers fail, 3 known servers stay: no such host (12:00)\nbackend-addresses backend gpu: addresses of stt.svc are not used: 0.0.0.0:1: why"},
	"DNS has never named a server": {func(f *Facts) {
		f.Stats.Discovery = []api.Discovery{{Backend: "gpu", Service: "stt", Failing: since, Reason: "no such host"}, {Backend: "well", Servers: 1}}
	}, "backend-no-servers backend gpu: it has no servers: no such host (12:00)"},
	"DNS has never named a server, and there is no other": {func(f *Facts) {
		f.Stats.Backends = nil
		f.Stats.Discovery = []api.Discovery{{Backend: "gpu", Service: "stt", Failing: since, Reason: "no such host"}}
	}, "service-down service stt: none of its backends can take sessions: gpu: it has no servers: no such host (12:00)"},
	"TLS in order":               {certificate(api.Certificate{File: "a.pem", State: "valid"}), ""},
	"a certificate that expires": {certificate(api.Certificate{File: "a.pem", NotAfter: since, State: "expiring"}), "certificate-expiring certificate a.pem: it expires at 2026-11-22T12:00:00Z. Replace the file with a renewed one: the proxy takes it within seconds"},
	"a certificate that is not valid yet": {
		certificate(api.Certificate{File: "a.pem", NotBefore: noon, NotAfter: noon.Add(time.Hour), State: "not-yet-valid"}),
		"certificate-expired certificate a.pem: it is not valid before 2026-11-22T12:01:00Z: clients that check it refuse it. " +
			"Check this machine's clock, or use another certificate",
	},
	"a certificate that has expired": {
		certificate(api.Certificate{File: "a.pem", NotAfter: since, State: "expired"}),
		"certificate-expired certificate a.pem: it expired at 2026-11-22T12:00:00Z: clients that check it refuse it. Replace the file with a renewed one: the proxy takes it within seconds (12:00)",
	},
	"a certificate that has expired, and clients refuse it": {
		func(f *Facts) {
			certificate(api.Certificate{File: "a.pem", NotAfter: since, State: "expired"})(f)
			f.Recent.TLSRefused = 12
		},
		"certificate-expired certificate a.pem: it expired at 2026-11-22T12:00:00Z: clients that check it refuse it, as in 12 TLS handshakes of the last minute. " +
			"Replace the file with a renewed one: the proxy takes it within seconds (12:00)",
	},
	"a certificate of the admin API that has expired": {
		certificate(api.Certificate{File: "a.pem", Listener: api.ListenerAdmin, NotAfter: since, State: "expired"}),
		"certificate-expired certificate a.pem of the admin API: it expired at 2026-11-22T12:00:00Z: commands, browsers and other proxies that check it refuse it. " +
			"Replace the file with a renewed one: the proxy takes it within seconds (12:00)",
	},
	"an issued certificate that has expired": {
		certificate(api.Certificate{File: "tls-auto:a.example", NotAfter: since, State: "expired"}),
		"certificate-expired certificate tls-auto:a.example: it expired at 2026-11-22T12:00:00Z: clients that check it refuse it. The proxy tries to renew it by itself (12:00)",
	},
	"a certificate that is not there yet": {
		certificate(api.Certificate{File: "tls-auto:a.example", State: "missing"}),
		"certificate-missing certificate tls-auto:a.example: the authority has not issued it yet: clients that ask for the name fail",
	},
	"a certificate that is refused": {
		certificate(api.Certificate{File: "tls-auto:a.example", State: "missing", Failure: "no such name"}),
		"certificate-refused certificate tls-auto:a.example: the authority does not issue it: no such name",
	},
	"bad files of TLS": {
		func(f *Facts) {
			f.Stats.TLS = &api.TLS{Failure: "tls-cert a.pem: no certificate in PEM form", FailureSince: since}
		},
		"tls-files TLS: files are bad, and what was read before stays in force: tls-cert a.pem: no certificate in PEM form (12:00)",
	},
}

// What is wrong with a database or certificate has a command that shows more, which names it.
func TestCuresOfFiles(t *testing.T) {
	for want, change := range map[string]func(*Facts){
		"openssl x509 -noout -subject -issuer -dates -in a.pem": certificate(api.Certificate{File: "a.pem", NotAfter: since, State: "expired"}),
		"dig +short a.example": certificate(api.Certificate{File: "tls-auto:a.example", State: "missing"}),
		"wsbouncer check --database /var/lib/wsbouncer/wsbouncer.db": func(f *Facts) {
			f.Stats.Configuration = api.Configuration{State: "stale", Source: "sqlite:/var/lib/wsbouncer/wsbouncer.db"}
		},
		"pg_isready --dbname 'postgres://a:xxxxx@db/ws'": inFleet(api.Fleet{Mode: api.FleetShare, Problem: "refused", Ledger: "postgres://a:xxxxx@db/ws"}),
	} {
		f := well()
		change(f)
		if all := Find(f); len(all) != 1 || all[0].Cure != want {
			t.Errorf("%+v; want the cure %s", all, want)
		}
	}
}
