// Package acme gets certificates for TLS towards clients from an authority that speaks ACME (RFC 8555), such as Let's Encrypt, and renews
// them. It proves that it controls a name with the challenge tls-alpn-01 (RFC 8737): the authority connects to the name's port 443,
// which must lead to one of the proxy's TLS listeners.
//
// The protocol, the storage and the renewals are those of certmagic.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// DefaultDirectory is the directory of Let's Encrypt.
const DefaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"

// Options are the settings of a [Manager].
type Options struct {
	// Names are the host names to get a certificate for, each by itself: see [CheckName]. There is at least one.
	Names []string
	// Directory is the URL of the authority's directory; empty for DefaultDirectory.
	Directory string
	// Roots are the authorities that vouch for the directory's server; nil for the system's.
	Roots *x509.CertPool
	// Folder is where the account, certificates and keys are kept. It is created, for this user only.
	Folder string
	// Log gets a line for each certificate that was obtained or could not be.
	Log *slog.Logger
}

// Manager keeps a certificate for each name. Any goroutine may call its methods, but Start is called once. Close ends it. It implements
// secure.Issuer.
type Manager struct {
	// Static after Start.
	options Options
	cache   *certmagic.Cache
	config  *certmagic.Config
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	closing sync.Once
	tasks   sync.WaitGroup
	pause   time.Duration // between two attempts to get a certificate that end without the authority

	mu     sync.Mutex
	failed map[string]string // guarded by mu: why a name got no certificate the last time
}

// Certificate is the state of a name.
type Certificate struct {
	Name string
	Leaf *x509.Certificate // in use; nil while there is none
	// Failure says why the last attempt to get or renew it failed; empty after a success, and before the first attempt has ended.
	Failure string
}

// New returns a manager with the certificates that an earlier run has kept. It sends no request: see [Manager.Start].
func New(o Options) *Manager { return newManager(o, &certmagic.FileStorage{Path: o.Folder}) }

func newManager(o Options, storage certmagic.Storage) *Manager {
	if o.Directory == "" {
		o.Directory = DefaultDirectory
	}
	m := &Manager{options: o, failed: make(map[string]string), pause: 10 * time.Minute}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	logger := zap.New(&logCore{log: o.Log})
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return m.config, nil },
		Logger:           logger,
	})
	m.config = certmagic.New(m.cache, certmagic.Config{
		Storage: storage,
		Logger:  logger,
		OCSP:    certmagic.OCSPConfig{DisableStapling: true}, // browsers and authorities have given OCSP up
		OnEvent: m.note,

		DefaultServerName: o.Names[0],
	})
	m.config.Issuers = []certmagic.Issuer{m.issuer("", 0)}
	for _, name := range o.Names {
		if _, err := m.config.CacheManagedCertificate(m.ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.Log.Warn("a certificate that was kept cannot be used", "name", name, "error", err)
		}
	}
	return m
}

// issuer returns how the authority is asked. The host and port are those of the listener that answers the challenge, so that certmagic
// opens none.
func (m *Manager) issuer(host string, port int) *certmagic.ACMEIssuer {
	return certmagic.NewACMEIssuer(m.config, certmagic.ACMEIssuer{
		CA: m.options.Directory, TestCA: m.options.Directory, Agreed: true, TrustedRoots: m.options.Roots,
		DisableHTTPChallenge: true, ListenHost: host, AltTLSALPNPort: port, NewAccountFunc: withoutContact,
		Logger: m.config.Logger,
	})
}

// withoutContact takes the contact out of an account that is to be registered: the manager has no address to give. While another name's account is
// being stored, certmagic takes the word default, by which that is stored, for one, and the authority would refuse it for a minute.
func withoutContact(_ context.Context, _ *certmagic.ACMEIssuer, a acme.Account) (acme.Account, error) {
	a.Contact = nil
	return a, nil
}

// Start begins to get a certificate for each name that has none, and to renew those that expire. It does not wait for them. at is the
// address of the TLS listener to which port 443 leads: it must accept connections already, and call [Manager.GetCertificate] for them.
func (m *Manager) Start(at net.Addr) error {
	host, port, err := listening(at)
	if err != nil {
		return err
	}
	m.config.Issuers = []certmagic.Issuer{m.issuer(host, port)}
	for _, c := range m.Certificates() {
		if c.Leaf == nil {
			m.tasks.Go(func() { m.obtain(c.Name, m.config.ObtainCertAsync) })
		} else if m.due(c.Name) { // the cache, which renews others, first looks after ten minutes
			m.tasks.Go(func() {
				m.obtain(c.Name, func(ctx context.Context, name string) error { return m.config.RenewCertAsync(ctx, name, false) })
			})
		}
	}
	return nil
}

// due reports whether all certificates of a name expire soon, or have expired.
func (m *Manager) due(name string) bool {
	return !slices.ContainsFunc(m.cache.AllMatchingCertificates(name), func(c certmagic.Certificate) bool { return !c.NeedsRenewal(m.config) })
}

// obtain gets a certificate for a name, by a function of certmagic that repeats what fails at the authority, and gives up for anything else, such as a
// full disk.
func (m *Manager) obtain(name string, get func(context.Context, string) error) {
	for {
		err := get(m.ctx, name)
		if err == nil {
			if _, err = m.config.CacheManagedCertificate(m.ctx, name); err == nil {
				m.mu.Lock()
				delete(m.failed, name)
				m.mu.Unlock()
				return
			}
			err = fmt.Errorf("the certificate in %s cannot be used: %w", m.options.Folder, err)
		}
		if m.ctx.Err() != nil {
			return
		}
		m.fail(name, false, err)
		select {
		case <-time.After(m.pause):
		case <-m.ctx.Done():
			return
		}
	}
}

// fail notes and logs why there is no new certificate for a name.
func (m *Manager) fail(name string, renewal any, err error) {
	m.mu.Lock()
	m.failed[name] = fmt.Sprint(err)
	m.mu.Unlock()
	m.options.Log.Warn("a certificate could not be obtained, and is tried again", "name", name, "renewal", renewal, "error", err)
}

// listening returns the host and the port of a TCP listener; the host is empty for all addresses.
func listening(address net.Addr) (host string, port int, err error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return "", 0, fmt.Errorf("the listener's address is %v: an authority connects over TCP", address)
	}
	if !tcp.IP.IsUnspecified() {
		host = tcp.IP.String()
	}
	return host, tcp.Port, nil
}

// closeTimeout is how long Close waits: certmagic asks an authority that does not answer for minutes, whatever has ended meanwhile.
const closeTimeout = time.Second

// Close ends the renewals and all that is under way, and waits for that no longer than a second. Certificates stay in use. It may be called more
// than once.
func (m *Manager) Close() {
	m.closing.Do(func() {
		m.cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.tasks.Wait()
			m.cache.Stop()
		}()
		select {
		case <-ended:
		case <-time.After(closeTimeout):
		}
	})
}

// Covers reports whether there is, or will be, a certificate for a name, which is in lower case.
func (m *Manager) Covers(name string) bool { return slices.Contains(m.options.Names, name) }

// errNoChallenge is the end of a handshake with a client that is no authority: none checks the name at present.
var errNoChallenge = errors.New("no authority checks this name at present")

// GetCertificate returns the certificate for a client that asks for a covered name, that of the first name for a client that asks for none, or
// what the authority's check expects, whose connections ask for the protocol acme-tls/1. The error says that there is none yet.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{secure.ChallengeProtocol}) {
		// Otherwise certmagic would look for the challenge of another process in the folder, for whatever name a stranger asks for.
		if _, ok := certmagic.GetACMEChallenge(hello.ServerName); !ok {
			return nil, errNoChallenge
		}
	}
	return m.config.GetCertificate(hello)
}

// Certificates returns the state of each name, in the order of the options.
func (m *Manager) Certificates() []Certificate {
	all := make([]Certificate, len(m.options.Names))
	for i, name := range m.options.Names {
		all[i].Name = name
		for _, c := range m.cache.AllMatchingCertificates(name) {
			if all[i].Leaf == nil || c.Leaf.NotAfter.After(all[i].Leaf.NotAfter) {
				all[i].Leaf = c.Leaf
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range all {
		all[i].Failure = m.failed[all[i].Name]
	}
	return all
}

// note logs what certmagic says about a certificate.
func (m *Manager) note(_ context.Context, event string, data map[string]any) error {
	name, _ := data["identifier"].(string)
	switch event {
	case "cert_obtained":
		m.mu.Lock()
		delete(m.failed, name)
		m.mu.Unlock()
		m.options.Log.Info("a certificate was obtained", "name", name, "renewal", data["renewal"])
	case "cert_failed":
		err, _ := data["error"].(error)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		m.fail(name, data["renewal"], err)
	}
	return nil
}

// NameAllowed describes in words what [CheckName] accepts.
const NameAllowed = "host names such as stt.example.com"

// CheckName checks a name for which a certificate is wanted.
func CheckName(name string) error {
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case err == nil:
		return fmt.Errorf("invalid name %q: authorities need a host name such as stt.example.com, not an address", name)
	case strings.HasPrefix(name, "*."):
		return fmt.Errorf("invalid name %q: a wildcard needs a challenge over DNS: list each name, or use tls-cert", name)
	case !strings.Contains(name, ".") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(name) > 253 ||
		slices.ContainsFunc(strings.Split(name, "."), func(label string) bool {
			return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-'
		}):
		return fmt.Errorf("invalid name %q: use a full host name in lower case, such as stt.example.com (xn--... if it is not ASCII), without a port", name)
	}
	return nil
}

// DirectoryAllowed describes in words what [CheckDirectory] accepts.
const DirectoryAllowed = "a URL such as https://acme.example.org/directory"

// CheckDirectory checks the URL of an authority's directory.
func CheckDirectory(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("invalid URL %q: use %s", text, DirectoryAllowed)
	}
	return nil
}

// logCore passes certmagic's log on, at level debug: [Manager.note] logs what operators need to know.
type logCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// Enabled implements [zapcore.Core].
func (c *logCore) Enabled(zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slog.LevelDebug)
}

// With implements [zapcore.Core].
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements [zapcore.Core].
func (c *logCore) Check(entry zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return to.AddCore(entry, c)
	}
	return to
}

// Write implements [zapcore.Core].
func (c *logCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(values)
	}
	c.log.Debug("acme: "+entry.Message, "level", entry.Level.String(), "fields", values.Fields)
	return nil
}

// Sync implements [zapcore.Core].
func (c *logCore) Sync() error { return nil }
