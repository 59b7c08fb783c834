package acme

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/acmetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// TestMain ignores goroutines that certmagic keeps: the limiter of its requests for the process, and those that keep a lock's file fresh,
// which notice within 5 s that it is gone.
func TestMain(m *testing.M) {
	const caddy = "github.com/caddyserver/certmagic."
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(caddy+"(*RingBufferRateLimiter).loop"), goleak.IgnoreAnyFunction(caddy+"keepLockfileFresh"))
}

// front is a TLS listener whose certificates a manager has.
type front struct {
	net.Listener
	manager chan *Manager // of size one
}

// listen starts a front that ends with the test.
func listen(t *testing.T) *front {
	t.Helper()
	f := &front{Listener: wstest.Listen(t), manager: make(chan *Manager, 1)}
	ended := make(chan struct{})
	config := &tls.Config{NextProtos: []string{"http/1.1", secure.ChallengeProtocol}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		m := <-f.manager
		f.manager <- m
		return m.GetCertificate(hello)
	}}
	go func() {
		defer close(ended)
		for {
			nc, err := f.Accept()
			if err != nil {
				return
			}
			_ = nc.SetDeadline(wstest.Deadline())
			_ = tls.Server(nc, config).Handshake()
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() { _ = f.Close(); <-ended })
	return f
}

func (f *front) port() int { return f.Addr().(*net.TCPAddr).Port }

// start starts a manager for the front, with its folder.
func (f *front) start(t *testing.T, a *acmetest.Authority, folder string, log io.Writer, names ...string) *Manager {
	t.Helper()
	m := New(Options{
		Names: names, Directory: a.Directory, Roots: a.Roots, Folder: folder,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err := m.Start(f.Addr()); err != nil {
		t.Fatal(err)
	}
	f.manager <- m
	return m
}

// certificate returns the name of the authority whose certificate a client that asks for the name gets.
func (f *front) certificate(name string) (issuer string, err error) {
	conn, err := tls.Dial("tcp", f.Addr().String(), &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // Pebble makes a new root each time
	if err != nil {
		return "", err
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	return leaf.Issuer.CommonName, leaf.VerifyHostname(name)
}

// A real authority gives each name a certificate, which outlives the process without it.
func TestObtains(t *testing.T) {
	f := listen(t)
	a := acmetest.Start(t, f.port())
	names := []string{"stt.example.com", "mt.example.com"}
	for _, name := range names {
		a.DNS.Set(name+".", "127.0.0.1")
	}
	folder := filepath.Join(t.TempDir(), "acme")
	m := f.start(t, a, folder, io.Discard, names...)
	wstest.Eventually(t, "each name has a certificate", func() bool {
		for _, c := range m.Certificates() {
			if c.Leaf == nil {
				return false
			}
		}
		return true
	})
	for _, name := range names {
		if issuer, err := f.certificate(name); err != nil || !strings.HasPrefix(issuer, "Pebble") {
			t.Errorf("%s: the certificate is from %q, %v", name, issuer, err)
		}
	}
	if issuer, _ := f.certificate("127.0.0.1"); !strings.HasPrefix(issuer, "Pebble") { // no SNI for addresses
		t.Errorf("a client that asks for no name gets a certificate from %q", issuer)
	}
	if issuer, err := f.certificate("other.example.com"); err == nil {
		t.Errorf("a name that is not listed has a certificate from %q", issuer)
	}
	if !m.Covers("stt.example.com") || m.Covers("other.example.com") {
		t.Error("it does not know which names it covers")
	}
	m.Close()
	<-f.manager
	expectPrivate(t, folder)

	a.DNS.Fail("stt.example.com.", dns.RcodeServerFailure) // so that the authority gives it no other
	again := f.start(t, a, folder, io.Discard, names...)
	defer again.Close()
	for _, name := range names { // at once, from the folder
		if issuer, err := f.certificate(name); err != nil || !strings.HasPrefix(issuer, "Pebble") {
			t.Errorf("after a restart, %s: the certificate is from %q, %v", name, issuer, err)
		}
	}
}

// expectPrivate checks that no other user can read keys.
func expectPrivate(t *testing.T, folder string) {
	t.Helper()
	keys := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".key") {
			keys++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
		return nil
	})
	if err != nil || keys < 3 {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// A name that the authority cannot reach gets no certificate, and says why; the others get theirs.
func TestFails(t *testing.T) {
	f := listen(t)
	a := acmetest.Start(t, f.port())
	a.DNS.Set("stt.example.com.", "127.0.0.1")
	var log logtest.Text // jobs of certmagic may log after a manager was closed
	m := f.start(t, a, t.TempDir(), &log, "stt.example.com", "lost.example.com")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", log.String())
		}
	})
	wstest.Eventually(t, "one name has a certificate, and the other a failure", func() bool {
		all := m.Certificates()
		return all[0].Leaf != nil && all[1].Failure != ""
	})
	if _, err := f.certificate("lost.example.com"); err == nil {
		t.Error("the name that cannot be reached has a certificate")
	}
	m.Close()
	if text := log.String(); !strings.Contains(text, "name=lost.example.com") || !strings.Contains(text, "level=WARN") {
		t.Errorf("the log says\n%s", text)
	}
}

// What is wrong with the folder is shown, and its certificate is in use soon after that is put right, without a restart.
func TestBadFolder(t *testing.T) {
	const name = "stt.example.com"
	f := listen(t)
	a := acmetest.Start(t, f.port())
	a.DNS.Set(name+".", "127.0.0.1")
	folder := filepath.Join(t.TempDir(), "acme")
	if err := os.Symlink(filepath.Join(t.TempDir(), "missing"), folder); err != nil { // nothing can be written there
		t.Skip(err)
	}
	var log logtest.Text
	start := func() *Manager {
		m := New(Options{Names: []string{name}, Directory: a.Directory, Roots: a.Roots, Folder: folder, Log: slog.New(slog.NewTextHandler(&log, nil))})
		m.pause = time.Millisecond
		if err := m.Start(f.Addr()); err != nil {
			t.Fatal(err)
		}
		f.manager <- m
		return m
	}
	repaired := func(m *Manager, says string, repair func() error) {
		t.Helper()
		wstest.Eventually(t, "a failure", func() bool { return m.Certificates()[0].Failure != "" })
		if c := m.Certificates()[0]; c.Leaf != nil || !strings.Contains(c.Failure, says) {
			t.Errorf("%+v; want %q", c, says)
		}
		wstest.Eventually(t, "a line in the log about "+says, func() bool { return strings.Contains(log.String(), says) })
		if err := repair(); err != nil {
			t.Fatal(err)
		}
		wstest.Eventually(t, "a certificate", func() bool { c := m.Certificates()[0]; return c.Leaf != nil && c.Failure == "" })
		m.Close()
		<-f.manager
	}
	repaired(start(), "failed storage check", func() error { return os.Remove(folder) })

	kept, err := filepath.Glob(filepath.Join(folder, "certificates", "*", name, name+".crt"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q, %v", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	repaired(start(), "the certificate in "+folder+" cannot be used", func() error { return os.Remove(kept[0]) })
}

// A certificate that has expired while no proxy ran is replaced when one starts.
func TestExpired(t *testing.T) {
	const name = "stt.example.com"
	f := listen(t)
	a := acmetest.Start(t, f.port())
	a.DNS.Set(name+".", "127.0.0.1")
	folder := filepath.Join(t.TempDir(), "acme")
	m := f.start(t, a, folder, io.Discard, name)
	wstest.Eventually(t, "a certificate", func() bool { return m.Certificates()[0].Leaf != nil })
	m.Close()
	<-f.manager
	expire(t, folder, name)

	again := f.start(t, a, folder, io.Discard, name)
	defer again.Close()
	wstest.Eventually(t, "another certificate", func() bool {
		issuer, err := f.certificate(name)
		return err == nil && strings.HasPrefix(issuer, "Pebble")
	})
	if c := again.Certificates()[0]; time.Until(c.Leaf.NotAfter) <= 0 || c.Failure != "" {
		t.Errorf("%v, %q", c.Leaf.NotAfter, c.Failure)
	}
}

// expire replaces the kept certificate of a name by one that has expired.
func expire(t *testing.T, folder, name string) {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(folder, "certificates", "*", name, name+".crt"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q, %v", kept, err)
	}
	pair, err := tls.LoadX509KeyPair(kept[0], strings.TrimSuffix(kept[0], ".crt")+".key")
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "expired"}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, pair.PrivateKey.(crypto.Signer).Public(), pair.PrivateKey)
	if err == nil {
		err = os.WriteFile(kept[0], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stubStorage is a folder in which the test decides about locks, and which counts what is read.
type stubStorage struct {
	*certmagic.FileStorage
	loads  atomic.Int64
	asked  chan struct{} // closed when a lock is wanted
	answer chan struct{} // closed to refuse it
}

func (s *stubStorage) Load(ctx context.Context, key string) ([]byte, error) {
	s.loads.Add(1)
	return s.FileStorage.Load(ctx, key)
}

func (s *stubStorage) TryLock(context.Context, string) (bool, error) {
	close(s.asked)
	<-s.answer
	return false, nil
}

// keep returns a storage that has a certificate for a name, for the authority of the directory. It is to be renewed in two months, and what the
// authority says about that is to be asked for again.
func keep(t *testing.T, directory, name string) *stubStorage {
	t.Helper()
	s := &stubStorage{FileStorage: &certmagic.FileStorage{Path: t.TempDir()}, asked: make(chan struct{}), answer: make(chan struct{})}
	until := time.Now().Add(90 * 24 * time.Hour)
	certificate, key := securetest.Files(t, securetest.NewAuthority(t).Issue(func(c *x509.Certificate) { c.NotAfter = until }, name))
	info := &acme.RenewalInfo{SelectedTime: until.Add(-30 * 24 * time.Hour)}
	info.SuggestedWindow.Start, info.SuggestedWindow.End = info.SelectedTime, until
	data, err := json.Marshal(acme.Certificate{RenewalInfo: info})
	if err != nil {
		t.Fatal(err)
	}
	meta, err := json.Marshal(certmagic.CertificateResource{SANs: []string{name}, IssuerData: data})
	if err != nil {
		t.Fatal(err)
	}
	issuer := (&certmagic.ACMEIssuer{CA: directory}).IssuerKey()
	for path, from := range map[string]string{certmagic.StorageKeys.SiteCert(issuer, name): certificate, certmagic.StorageKeys.SitePrivateKey(issuer, name): key} {
		content, err := os.ReadFile(from)
		if err == nil {
			err = s.Store(t.Context(), path, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Store(t.Context(), certmagic.StorageKeys.SiteMeta(issuer, name), meta); err != nil {
		t.Fatal(err)
	}
	return s
}

// The end of the proxy does not wait for a certificate's maintenance, which may take minutes.
func TestCloseIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name, directory = "stt.example.com", "https://acme.example.org/directory"
		storage := keep(t, directory, name)
		m := newManager(Options{Names: []string{name}, Directory: directory, Log: slog.New(slog.DiscardHandler)}, storage)
		<-storage.asked
		begun := time.Now()
		m.Close()
		if took := time.Since(begun); took != closeTimeout {
			t.Errorf("took %v", took)
		}
		close(storage.answer)
		time.Sleep(10 * time.Second) // those that keep a lock's file fresh notice that it is gone
	})
}

// A stranger that pretends to be an authority has no file read.
func TestStrangersChallenge(t *testing.T) {
	const name, directory = "stt.example.com", "https://acme.example.org/directory"
	storage := keep(t, directory, name)
	m := newManager(Options{Names: []string{name}, Directory: directory, Log: slog.New(slog.DiscardHandler)}, storage)
	defer m.Close()
	kept := storage.loads.Load()
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	for _, ask := range []string{name, "other.example.com"} {
		hello := &tls.ClientHelloInfo{ServerName: ask, SupportedProtos: []string{secure.ChallengeProtocol}, Conn: conn}
		if _, err := m.GetCertificate(hello); err == nil || storage.loads.Load() != kept {
			t.Errorf("%s: %d files were read for it, %v", ask, storage.loads.Load()-kept, err)
		}
	}
}

// Names that no authority gives a certificate for are refused before it is asked.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"stt.example.com", "a-b.example.org", "xn--bcher-kva.example"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for name, says := range map[string]string{
		"192.0.2.1": "not an address", "2001:db8::1": "not an address", "[2001:db8::1]": "not an address", "*.example.com": "a wildcard needs a challenge over DNS",
		"localhost": "use a full host name", "": "use a full host name", "Stt.example.com": "in lower case", "stt.example.com:443": "without a port",
		"bücher.example": "xn--", "-a.example.com": "use a full host name", "a..example.com": "use a full host name", "https://stt.example.com": "use a full host name",
	} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", name, err, says)
		}
	}
	for _, url := range []string{"http://acme.example.org/", "acme.example.org", "https://u:p@acme.example.org/"} {
		if err := CheckDirectory(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}
