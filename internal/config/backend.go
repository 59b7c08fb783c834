package config

import (
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Backend is one inference server, or several alike behind one name ([Backend.Discovers]). Begin with [DefaultBackend]. Its name is its key in [Content].
type Backend struct {
	Service string // name of the service that it belongs to
	URL     string // ws:// or wss:// address
	// Connections is the cap: connections that the server ever sees at once. Negative: ConnectionsMax, and fewer as far as the server publishes.
	// Use [Backend.Cap].
	Connections    int
	ConnectionsMax int

	Warm   int     // connections kept ready beside those in use; negative for the cap
	Weight float64 // how much of the clients it gets, relative to its cap and to the others; 0 for none
	State  string  // enabled, draining or disabled

	Discover         string        // how the servers behind the URL's host are found: [DiscoverDNS], [DiscoverKubernetes], or empty for one server
	DiscoverInterval time.Duration // time between two lookups

	Calibrated string // what 'wsbouncer calibrate' has found on the server: see [Calibrated]; empty for nothing

	Labels map[string]string // for people and selectors; they change nothing

	TLSCA                 string // file with the certificates to trust; empty for the system's
	TLSServerName         string // name that the server's certificate must have; empty for the URL's host
	TLSInsecureSkipVerify bool   // trust any certificate
	TLSCertificate        string // file with the client certificate to show; empty for none
	TLSKey                string // file with its key

	// Headers of the upgrade request. Secrets are references, see [Resolve].
	Headers map[string]string
}

// Auto reports whether the server publishes how many connections it takes, within the cap.
func (b *Backend) Auto() bool { return b.Connections < 0 }

// Cap returns how many connections the server ever sees at once.
func (b *Backend) Cap() int {
	if b.Auto() {
		return b.ConnectionsMax
	}
	return b.Connections
}

// WarmCount returns how many connections are kept ready: Warm, or the cap.
func (b *Backend) WarmCount() int {
	if b.Warm < 0 {
		return b.Cap()
	}
	return b.Warm
}

// DefaultBackend returns a backend with all defaults. Service and URL have none.
func DefaultBackend() Backend { return withDefaults[Backend]() }

// states are the states that an operator can set, the default first. A test compares them with those of package pool.
var states = []string{"enabled", "draining", "disabled"}

// maxConnections is the largest cap of a backend; a larger number is probably a mistake.
const maxConnections = 100_000

// fields returns the fields of a backend: see [Service.fields].
func (b *Backend) fields() []field {
	return []field{
		{"service", "", "service that the backend belongs to; required", value.NewText(
			&b.Service, "the name of a service", checkAny)}, // whether there is one is for Validate
		{"url", "", "URL of the inference server; required", value.NewText(&b.URL, "ws://host:port/path or wss://host:port/path", checkURL)},
		{
			"connections", "100", "maximum simultaneous connections to the server; auto: as it publishes; required by backend add",
			connectionsValue{&b.Connections},
		},
		{"connections-max", "100", "cap with connections: auto", value.NewCount(&b.ConnectionsMax, 1, maxConnections)},
		{"warm", wholeCap, "connections to keep ready besides those in use", warmValue{&b.Warm}},
		{"weight", "1", "share of clients, relative to cap and other backends; 0 for none", value.NewNumber(&b.Weight, 1000)},
		{"state", states[0], "desired state; draining: no new sessions; disabled: no idle connections either", value.NewChoice(&b.State, "state", states)},
		{"discover", "", "how to find servers behind the URL's host name, each with this cap; empty for one server", value.NewText(
			&b.Discover, strings.Join(discovering, ", "), checkDiscover)},
		{"discover-interval", "5s", "time between DNS lookups, plus or minus a fifth", value.NewDuration(&b.DiscoverInterval, time.Second)},
		{calibrated, "", "result of 'wsbouncer calibrate --save' on the server; empty for none", value.NewText(
			&b.Calibrated, "a line such as 2026-11-27 vosk streams=24", checkCalibrated)},
		{"labels", "", "labels for people and selectors", value.NewMap(&b.Labels, "names of letters, digits and ._/- with texts", checkLabel)},
		{"tls-ca", "", "file with CA certificates to trust; empty for the system's", value.NewText(&b.TLSCA, "a path", checkFile)},
		{"tls-server-name", "", "name that the server's certificate must have; empty for the URL's host", value.NewText(
			&b.TLSServerName, "a host name in lower case", checkHost)},
		{"tls-insecure-skip-verify", "false", "accept any certificate; for tests only", value.NewFlag(&b.TLSInsecureSkipVerify)},
		{"tls-certificate", "", "file with the client certificate; empty for none", value.NewText(&b.TLSCertificate, "a path", checkFile)},
		{"tls-key", "", "file with the client certificate's key", value.NewText(&b.TLSKey, "a path", checkFile)},
		{"headers", "", "headers of the upgrade request", value.NewMap(
			&b.Headers, "names of headers with texts, whose last word may be env:NAME or file:/path", checkHeader)},
	}
}
