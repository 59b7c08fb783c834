// Package stage runs simulated servers of one protocol, and the proxy in front of them, in this process and on ports of the
// loopback interface. The demonstration and the leak hunt use it.
package stage

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// Options are the settings of a stage.
type Options struct {
	// Server are the settings of the simulated servers.
	Server sim.Options
	// Servers is the number of servers. Default 2.
	Servers int
	// Proxy changes the settings of the proxy, which listens on any port. Default: nothing.
	Proxy func(s *app.Settings)
	// TLS is for TLS on both sides: from clients to the proxy, and from the proxy to the servers.
	TLS bool
	// Version is what the proxy says its version is.
	Version string
	// Log gets what the proxy logs. Default: nothing is logged.
	Log *slog.Logger
}

// ForHunt changes a proxy's settings for a leak hunt with that many connections to each server: clients that wait for one of a few
// connections are not refused, and broken sessions, which are part of the hunt, do not take a server out of service.
func ForHunt(s *app.Settings, connections int) {
	s.Connections = connections
	s.Queue = 10_000
	s.QueueTimeout = 30 * time.Second
	s.CircuitFailures = 1_000_000
	s.CloseTimeout = time.Second
	s.DrainTimeout = 0
}

// Stage is a proxy with its servers. Its fields are static, and its methods may be called from any goroutine.
type Stage struct {
	proxy   *app.Proxy
	servers []*sim.Server
	tls     *Certificate // nil for none
	folder  string       // of the certificate
}

// Start starts the servers and the proxy, and waits until the proxy has connections. It returns an error if ctx ends first. The caller
// closes the stage.
func Start(ctx context.Context, o Options) (*Stage, error) {
	o.Servers, o.Log = cmp.Or(o.Servers, 2), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := new(Stage)
	settings := app.DefaultSettings()
	settings.Listen = []string{"127.0.0.1:0"}
	if o.TLS {
		var err error
		if s.folder, err = os.MkdirTemp("", "stage-"); err == nil {
			s.tls, err = NewCertificate(s.folder, Lifetime)
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		o.Server.TLS = s.tls.server()
		settings.Listen, settings.TLSListen = nil, settings.Listen
		settings.TLSCert, settings.TLSKey = []string{s.tls.File()}, []string{s.tls.KeyFile()}
	}
	for i := range o.Servers {
		server := o.Server
		server.Seed += uint64(i)
		started, err := sim.Start(server)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("starting a simulated server: %w", err)
		}
		s.servers = append(s.servers, started)
		settings.Backends = append(settings.Backends, s.backend(started))
	}
	if o.Proxy != nil {
		o.Proxy(&settings)
	}
	var err error
	if s.proxy, err = app.Start(ctx, settings, o.Version, o.Log); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ready waits until the proxy is ready.
func (s *Stage) ready(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.proxy.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// backend returns a server's URL and, behind it, what the proxy needs to know of its TLS.
func (s *Stage) backend(server *sim.Server) string {
	if s.tls == nil {
		return server.URL()
	}
	return server.URL() + ",tls-ca=" + s.tls.File()
}

// URL returns the proxy's address for clients.
func (s *Stage) URL() string {
	scheme := "ws://"
	if s.tls != nil {
		scheme = "wss://"
	}
	return scheme + s.proxy.Addresses()[0].String()
}

// ClientTLS returns how clients trust the proxy; nil without TLS.
func (s *Stage) ClientTLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.client()
}

// Proxy returns the proxy.
func (s *Stage) Proxy() *app.Proxy { return s.proxy }

// Servers returns the simulated servers.
func (s *Stage) Servers() []*sim.Server { return slices.Clone(s.servers) }

// Accepted returns how many connections the proxy has made to the servers.
func (s *Stage) Accepted() (n uint64) {
	for _, server := range s.servers {
		n += server.Stats().Accepted
	}
	return n
}

// Close stops the proxy, and then the servers.
func (s *Stage) Close() {
	if s.proxy != nil {
		s.proxy.Shutdown()
	}
	for _, server := range s.servers {
		server.Close()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// Certificate is one for 127.0.0.1 and localhost that is its own authority, in files of a folder. It is immutable.
type Certificate struct {
	folder string
	pair   tls.Certificate
}

// Lifetime is how long a certificate is valid that is not to expire: longer than any proof, and than warnings begin before the end.
const Lifetime = 100 * 24 * time.Hour

// NewCertificate makes a certificate in a folder that is valid for so long; if that is negative, it has expired.
func NewCertificate(folder string, left time.Duration) (*Certificate, error) {
	c := &Certificate{folder: folder}
	if err := c.make(left); err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return c, nil
}

func (c *Certificate) make(left time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "stage"},
		NotBefore: now.Add(min(0, left) - time.Hour), NotAfter: now.Add(left), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.File(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(c.KeyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return err
	}
	c.pair, err = tls.LoadX509KeyPair(c.File(), c.KeyFile())
	return err
}

// File returns the path of the certificate.
func (c *Certificate) File() string { return filepath.Join(c.folder, "certificate.pem") }

// KeyFile returns the path of its key.
func (c *Certificate) KeyFile() string { return filepath.Join(c.folder, "key.pem") }

// server returns the configuration of a server with the certificate.
func (c *Certificate) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.pair}}
}

// client returns the configuration of clients that trust nothing but the certificate. They resume sessions.
func (c *Certificate) client() *tls.Config {
	trusted := x509.NewCertPool()
	trusted.AddCert(c.pair.Leaf)
	return &tls.Config{RootCAs: trusted, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
}
