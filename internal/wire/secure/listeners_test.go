package secure

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// site is a set of listeners with their own clock and log.
type site struct {
	*Listeners
	t    *testing.T
	time time.Time
	log  bytes.Buffer
}

// open opens listeners with these settings.
func open(t *testing.T, issuer Issuer, settings ...ListenerSettings) *site {
	t.Helper()
	s := &site{t: t, time: time.Now()}
	var err error
	if s.Listeners, err = newListeners(slog.New(slog.NewTextHandler(&s.log, nil)), issuer, func() time.Time { return s.time }, settings); err != nil {
		t.Fatal(err)
	}
	return s
}

// logged returns what was logged since the last call.
func (s *site) logged() string {
	defer s.log.Reset()
	return s.log.String()
}

// connect connects to a listener as a client. The error is the client's, or, if that has none, the server's.
func (s *site) connect(listener int, config *tls.Config) (client, server tls.ConnectionState, err error) {
	s.t.Helper()
	near, far := pair(s.t)
	for _, end := range []net.Conn{near, far} {
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
	}
	conn := Server(far, s.Listener(listener).Config(), nil)
	done := make(chan error, 1)
	go func() {
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte("x")) // after the tickets
		}
		_ = far.Close()
		done <- err
	}()
	peer := tls.Client(near, config)
	_, err = io.ReadFull(peer, make([]byte, 1))
	_ = near.Close()
	if serverErr := <-done; serverErr != nil && (err == nil || err == io.EOF) {
		err = serverErr
	}
	return peer.ConnectionState(), conn.ConnectionState(), err
}

// written writes a certificate and its key to files.
func written(t *testing.T, c tls.Certificate) KeyPair {
	t.Helper()
	certificate, key := securetest.Files(t, c)
	return KeyPair{certificate, key}
}

// replace writes another certificate to the same files.
func (p KeyPair) replace(t *testing.T, c tls.Certificate) {
	t.Helper()
	p.replaceCertificate(t, c)
	p.replaceKey(t, c)
}

func (p KeyPair) replaceCertificate(t *testing.T, c tls.Certificate) {
	t.Helper()
	securetest.WritePEM(t, p.Certificate, "CERTIFICATE", c.Certificate[0])
}

func (p KeyPair) replaceKey(t *testing.T, c tls.Certificate) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	securetest.WritePEM(t, p.Key, "PRIVATE KEY", der)
}

// plain returns the settings of a listener that presents these certificates.
func plain(pairs ...KeyPair) ListenerSettings {
	return ListenerSettings{Certificates: pairs, MinVersion: tls.VersionTLS12}
}

// The name that a client asks for chooses the certificate: an exact name before a wildcard, which stands for one label, and the first
// certificate for all others.
func TestChoiceByName(t *testing.T) {
	a := securetest.NewAuthority(t)
	s := open(t, nil, plain(
		written(t, a.Issue(nil, "first.example")), written(t, a.Issue(nil, "*.stt.example", "stt.example")), written(t, a.Issue(nil, "tts.stt.example", "10.0.0.7")),
	))
	for ask, want := range map[string]string{
		"first.example": "first.example", "a.stt.example": "*.stt.example", "stt.example": "*.stt.example", "TTS.stt.example": "tts.stt.example",
		"a.b.stt.example": "first.example", "": "first.example", "other.example": "first.example", "10.0.0.7": "first.example", // no SNI for addresses
	} {
		client, _, err := s.connect(0, &tls.Config{ServerName: ask, InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("%q: %v", ask, err)
			continue
		}
		if got := client.PeerCertificates[0].DNSNames[0]; got != want {
			t.Errorf("%q gets %q; want %q", ask, got, want)
		}
	}
	if got := s.Uncovered([]string{"stt.example", "x.stt.example", "x.y.stt.example", "10.0.0.7", "10.0.0.8"}); !slices.Equal(got, []string{"x.y.stt.example", "10.0.0.8"}) {
		t.Errorf("uncovered: %q", got)
	}
}

// Of two certificates for one name, the client gets the one that it can verify.
func TestChoiceByKey(t *testing.T) {
	a := securetest.NewAuthority(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, nil, plain(written(t, a.Issue(nil, "stt.example")), written(t, a.IssueFor(key, nil, "stt.example"))))
	for _, c := range []struct {
		suite uint16
		want  x509.PublicKeyAlgorithm
	}{{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, x509.RSA}, {tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, x509.ECDSA}} {
		for _, name := range []string{"stt.example", "other.example"} {
			client, _, err := s.connect(0, &tls.Config{ServerName: name, InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{c.suite}})
			if err != nil || client.PeerCertificates[0].PublicKeyAlgorithm != c.want {
				t.Errorf("%s for %s: %v", tls.CipherSuiteName(c.suite), name, err)
			}
		}
	}
}

// fakeIssuer has a certificate for one name.
type fakeIssuer struct {
	name        string
	certificate tls.Certificate
	asked       []string
}

func (f *fakeIssuer) Covers(name string) bool { return name == f.name }

func (f *fakeIssuer) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.asked = append(f.asked, hello.ServerName)
	return &f.certificate, nil
}

// What comes from elsewhere than files is presented for its names, and to the authority that checks them.
func TestIssuer(t *testing.T) {
	a := securetest.NewAuthority(t)
	f := &fakeIssuer{name: "auto.example", certificate: a.Issue(nil, "auto.example")}
	s := open(t, f, plain(written(t, a.Issue(nil, "file.example"))), ListenerSettings{MinVersion: tls.VersionTLS12})
	for _, c := range []struct {
		listener        int
		ask, want, alpn string
	}{
		{0, "auto.example", "auto.example", "http/1.1"},
		{0, "file.example", "file.example", "http/1.1"},
		{0, "other.example", "file.example", ""},
		{0, "file.example", "auto.example", ChallengeProtocol},
		{1, "auto.example", "auto.example", ""},
		{0, "", "file.example", ""},
		{1, "", "auto.example", ""},
	} {
		config := &tls.Config{ServerName: c.ask, InsecureSkipVerify: true}
		if c.alpn != "" {
			config.NextProtos = []string{c.alpn}
		}
		client, _, err := s.connect(c.listener, config)
		if err != nil || client.PeerCertificates[0].DNSNames[0] != c.want || client.NegotiatedProtocol != c.alpn {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, _, err := s.connect(1, &tls.Config{ServerName: "other.example", InsecureSkipVerify: true}); err == nil {
		t.Error("a listener presents a certificate that it does not have")
	}
	if got := s.Uncovered([]string{"auto.example", "x.example"}); !slices.Equal(got, []string{"x.example"}) {
		t.Errorf("uncovered: %q", got)
	}
}

// A client's lowest and highest version, and its protocols, decide what is spoken, or why nothing is.
func TestVersions(t *testing.T) {
	a := securetest.NewAuthority(t)
	pair := written(t, a.Issue(nil, "stt.example"))
	modern := plain(pair)
	modern.MinVersion = tls.VersionTLS13
	s := open(t, nil, plain(pair), modern)
	for _, c := range []struct {
		listener int
		version  uint16
		alpn     []string
		refusal  string
	}{
		{0, tls.VersionTLS12, []string{"http/1.1"}, ""},
		{0, tls.VersionTLS13, []string{"h2", "http/1.1"}, ""},
		{1, tls.VersionTLS13, nil, ""},
		{0, tls.VersionTLS11, nil, "protocol version"},
		{0, tls.VersionTLS10, nil, "protocol version"},
		{1, tls.VersionTLS12, nil, "protocol version"},
		{0, tls.VersionTLS13, []string{"h2"}, "no application protocol"},
	} {
		config := &tls.Config{RootCAs: a.Pool(), ServerName: "stt.example", MinVersion: c.version, MaxVersion: c.version, NextProtos: c.alpn}
		client, _, err := s.connect(c.listener, config)
		switch {
		case c.refusal != "":
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || client.Version != c.version || c.alpn != nil && client.NegotiatedProtocol != "http/1.1":
			t.Errorf("%+v: %v, %q", c, err, client.NegotiatedProtocol)
		}
	}
}

// A client resumes its session: with another listener, after the certificate was replaced, and after the keys of tickets have changed, but not
// for longer than a day and a half.
func TestResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			a := securetest.NewAuthority(t)
			issue := func() tls.Certificate {
				return a.Issue(func(c *x509.Certificate) {
					c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour)
				}, "stt.example")
			}
			pair := written(t, issue())
			s := open(t, nil, plain(pair), plain(pair))
			config := &tls.Config{RootCAs: a.Pool(), ServerName: "stt.example", MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			expect := func(listener int, resumed bool, when string) {
				t.Helper()
				client, server, err := s.connect(listener, config)
				if err != nil || client.DidResume != resumed || server.DidResume != resumed {
					t.Errorf("%s: resumed %v, %v, %v", when, client.DidResume, server.DidResume, err)
				}
			}
			expect(0, false, "first")
			expect(0, true, "again")
			expect(1, true, "with another listener")
			pair.replace(t, issue())
			s.poll()
			if text := s.logged(); !strings.Contains(text, "TLS certificates loaded") {
				t.Errorf("log: %s", text)
			}
			expect(0, true, "after another certificate was loaded")
			kept := config.Clone()
			for range ticketKeys - 1 {
				s.time = s.time.Add(ticketKeyAge)
				s.poll()
			}
			kept.ClientSessionCache = &fixedTicket{config.ClientSessionCache}
			config = kept
			expect(0, true, "after a day")
			s.time = s.time.Add(ticketKeyAge)
			s.poll()
			expect(0, false, "when its key is gone")
		})
	}
}

// fixedTicket keeps the ticket that it has.
type fixedTicket struct{ tls.ClientSessionCache }

func (fixedTicket) Put(string, *tls.ClientSessionState) {}

// Clients present certificates, or must not, or need not.
func TestClientCertificates(t *testing.T) {
	a, clients, strangers := securetest.NewAuthority(t), securetest.NewAuthority(t), securetest.NewAuthority(t)
	pair := written(t, a.Issue(nil, "stt.example"))
	settings := []ListenerSettings{plain(pair), plain(pair), plain(pair)}
	for i, auth := range []ClientAuth{NoClientCertificate, OptionalClientCertificate, RequiredClientCertificate} {
		settings[i].ClientCA, settings[i].ClientAuth = []string{clients.File()}, auth
	}
	s := open(t, nil, settings...)
	good, bad := clients.Issue(nil, "device-7"), strangers.Issue(nil, "device-7")
	expired := clients.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "device-7")
	forServers := clients.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, "device-7")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			name        string
			listener    int
			certificate *tls.Certificate
			verified    bool
			fails       bool
		}{
			{"off, none", 0, nil, false, false},
			{"off, good", 0, &good, false, false},
			{"optional, none", 1, nil, false, false},
			{"optional, good", 1, &good, true, false},
			{"optional, a stranger's", 1, &bad, false, true},
			{"optional, expired", 1, &expired, false, true},
			{"optional, for servers", 1, &forServers, false, true},
			{"required, none", 2, nil, false, true},
			{"required, good", 2, &good, true, false},
			{"required, a stranger's", 2, &bad, false, true},
		} {
			config := &tls.Config{RootCAs: a.Pool(), ServerName: "stt.example", MinVersion: version, MaxVersion: version}
			if c.certificate != nil { // GetClientCertificate: also if the server does not know the authority
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.certificate, nil }
			}
			_, server, err := s.connect(c.listener, config)
			if (err != nil) != c.fails || (len(server.VerifiedChains) > 0) != c.verified && !c.fails {
				t.Errorf("%s, %s: %v, %d chains", tls.VersionName(version), c.name, err, len(server.VerifiedChains))
			}
		}
	}
	// A session that began without a certificate, or whose authority is no longer trusted, is not resumed.
	config := &tls.Config{RootCAs: a.Pool(), ServerName: "stt.example", ClientSessionCache: tls.NewLRUClientSessionCache(1), Certificates: []tls.Certificate{good}}
	for _, resumed := range []bool{false, true} {
		if client, server, err := s.connect(2, config); err != nil || client.DidResume != resumed || len(server.VerifiedChains) == 0 {
			t.Errorf("resumed %v, %v", client.DidResume, err)
		}
	}
	securetest.WritePEM(t, settings[2].ClientCA[0], "CERTIFICATE", pemOf(t, strangers.File()))
	s.poll()
	if client, _, err := s.connect(2, config); err == nil {
		t.Errorf("a client of an authority that is no longer trusted is served, resumed %v", client.DidResume)
	}
}

// A ticket of one listener, with or without a client's certificate behind it, gets no client past what another listener requires. It is not
// resumed there; the full handshake then decides.
func TestTicketsOfOtherListeners(t *testing.T) {
	a, devices, partners := securetest.NewAuthority(t), securetest.NewAuthority(t), securetest.NewAuthority(t)
	pair := written(t, a.Issue(nil, "stt.example"))
	const noCertificates, optionalDevices, requiredDevices, requiredPartners = 0, 1, 2, 3
	settings := []ListenerSettings{plain(pair), plain(pair), plain(pair), plain(pair)}
	for i, auth := range []ClientAuth{NoClientCertificate, OptionalClientCertificate, RequiredClientCertificate, RequiredClientCertificate} {
		settings[i].ClientAuth = auth
		if settings[i].ClientCA = []string{devices.File()}; i == requiredPartners {
			settings[i].ClientCA = []string{partners.File()}
		}
	}
	s := open(t, nil, settings...)
	device := devices.Issue(nil, "device-7")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			name        string
			certificate bool // in the first handshake; never in the second one
			from, to    int
			resumed     bool
			refused     bool
		}{
			{"from a listener without certificates", false, noCertificates, requiredDevices, false, true},
			{"from one where they are optional, without", false, optionalDevices, requiredDevices, false, true},
			{"from one where they are optional, with", true, optionalDevices, requiredDevices, true, false},
			{"of another authority", true, requiredDevices, requiredPartners, false, true},
			{"of another authority, optional", true, optionalDevices, requiredPartners, false, true},
			{"with a certificate that is not asked for", true, requiredDevices, noCertificates, false, false},
		} {
			config := &tls.Config{RootCAs: a.Pool(), ServerName: "stt.example", MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			presents := c.certificate
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if presents {
					return &device, nil
				}
				return new(tls.Certificate), nil
			}
			name := tls.VersionName(version) + ", " + c.name
			if _, server, err := s.connect(c.from, config); err != nil || (len(server.VerifiedChains) > 0) != c.certificate {
				t.Fatalf("%s: %v", name, err)
			}
			presents = false
			_, server, err := s.connect(c.to, config)
			if (err != nil) != c.refused || server.DidResume != c.resumed && err == nil {
				t.Errorf("%s: resumed %v, %v", name, server.DidResume, err)
			}
			if verified := len(server.VerifiedChains) > 0; err == nil && verified != c.resumed {
				t.Errorf("%s: has a verified certificate: %v", name, verified)
			}
		}
	}
}

// pemOf returns the content of the first block of a file.
func pemOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	return block.Bytes
}

// What cannot be used is refused at the start, with the setting, the file and the reason.
func TestBadFiles(t *testing.T) {
	a := securetest.NewAuthority(t)
	good, other := written(t, a.Issue(nil, "stt.example")), written(t, a.Issue(nil, "stt.example"))
	with := func(change func(*x509.Certificate), names ...string) ListenerSettings {
		return plain(written(t, a.Issue(change, names...)))
	}
	write := func(kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), "file.pem")
		securetest.WritePEM(t, path, kind, content)
		return path
	}
	chain := filepath.Join(t.TempDir(), "chain.pem")
	if err := os.WriteFile(chain, slices.Concat(read(t, a.File()), read(t, good.Certificate)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		settings ListenerSettings
		want     []string
	}{
		"no certificate":      {plain(KeyPair{"/nowhere/c.pem", good.Key}), []string{"tls-cert: stat /nowhere/c.pem: no such file"}},
		"no key":              {plain(KeyPair{good.Certificate, "/nowhere/k.pem"}), []string{"tls-key: stat /nowhere/k.pem: no such file"}},
		"a directory":         {plain(KeyPair{t.TempDir(), good.Key}), []string{"tls-cert: ", "is not a regular file"}},
		"another key":         {plain(KeyPair{good.Certificate, other.Key}), []string{"tls-cert " + good.Certificate + " with tls-key " + other.Key + ": tls: private key does not match public key"}},
		"the two exchanged":   {plain(KeyPair{good.Key, good.Certificate}), []string{"tls-cert " + good.Key + " with tls-key", "failed to find"}},
		"the authority first": {plain(KeyPair{chain, good.Key}), []string{"private key does not match public key: put the server's own certificate first in the file"}},
		"no PEM":              {plain(KeyPair{writeText(t, "hello"), good.Key}), []string{"no certificate in PEM form"}},
		"broken":              {plain(KeyPair{write("CERTIFICATE", []byte("x")), good.Key}), []string{"tls-cert ", "x509: malformed certificate"}},
		"an encrypted key":    {plain(KeyPair{good.Certificate, write("ENCRYPTED PRIVATE KEY", []byte("x"))}), []string{"tls-key ", "the key is encrypted: write it without a passphrase"}},
		"for no name":         {with(nil), []string{"tls-cert ", "the certificate is for no name"}},
		"for clients":         {with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "stt.example"), []string{"its extended key usage lacks serverAuth"}},
		"none":                {plain(), []string{"a listener has no certificate"}},
		"no authority":        {ListenerSettings{Certificates: []KeyPair{good}, ClientAuth: RequiredClientCertificate, ClientCA: []string{"/nowhere/ca.pem"}}, []string{"tls-client-ca: stat /nowhere/ca.pem"}},
		"no CA":               {ListenerSettings{Certificates: []KeyPair{good}, ClientAuth: RequiredClientCertificate, ClientCA: []string{other.Certificate}}, []string{"tls-client-ca " + other.Certificate + ": certificate 1 (CN=test) is not that of an authority"}},
		"a key for a CA":      {ListenerSettings{Certificates: []KeyPair{good}, ClientAuth: RequiredClientCertificate, ClientCA: []string{good.Key}}, []string{"tls-client-ca " + good.Key + ": no certificate in PEM form"}},
		"several at once":     {plain(KeyPair{"/nowhere/a", "/nowhere/b"}, KeyPair{good.Certificate, other.Key}, good), []string{"/nowhere/a", "does not match"}},
	} {
		_, err := NewListeners(slog.New(slog.DiscardHandler), nil, c.settings, c.settings)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if strings.Count(err.Error(), want) != 1 {
				t.Errorf("%s: %q; want %q once", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "PRIVATE") && name != "the two exchanged" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// presented returns the serial number of the certificate that a listener presents.
func (s *site) presented(listener int) string {
	s.t.Helper()
	client, _, err := s.connect(listener, &tls.Config{ServerName: "stt.example", InsecureSkipVerify: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return client.PeerCertificates[0].SerialNumber.String()
}

func serial(t *testing.T, c tls.Certificate) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.SerialNumber.String()
}

// A certificate is renewed by replacing its files. While they do not fit, or the new one is bad, the old one stays in force, and that is said
// once it lasts; others are renewed all the same.
func TestRenewal(t *testing.T) {
	a := securetest.NewAuthority(t)
	first, second := a.Issue(nil, "stt.example"), a.Issue(nil, "stt.example")
	pair, neighbour := written(t, first), written(t, a.Issue(nil, "tts.example"))
	s := open(t, nil, plain(pair, neighbour))
	s.poll()
	if got := s.presented(0); got != serial(t, first) || s.logged() != "" {
		t.Error("it is not the first certificate, or something was logged")
	}
	pair.replaceCertificate(t, second)
	s.poll()
	if st := s.Status(); s.presented(0) != serial(t, first) || st.Failure != "" || s.logged() != "" {
		t.Errorf("between the two files: %+v", st)
	}
	pair.replaceKey(t, second)
	s.poll()
	if st := s.Status(); s.presented(0) != serial(t, second) || st.Failure != "" || !st.Loaded.Equal(s.time) {
		t.Errorf("after both files: %+v", st)
	}
	if text := s.logged(); !strings.Contains(text, "TLS certificates loaded") || strings.Contains(text, "bad") {
		t.Errorf("log: %s", text)
	}

	expired := a.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	}, "stt.example")
	pair.replace(t, expired)
	newer := a.Issue(nil, "tts.example")
	neighbour.replace(t, newer)
	s.time = s.time.Add(time.Minute)
	began := s.time
	s.poll()
	s.time = s.time.Add(pollInterval)
	s.poll()
	s.poll()
	st := s.Status()
	if s.presented(0) != serial(t, second) || !strings.Contains(st.Failure, "has expired at") || !st.Since.Equal(began) {
		t.Errorf("with an expired certificate: %+v", st)
	}
	if text := s.logged(); strings.Count(text, "TLS files are bad: what was read before stays in force") != 1 || !strings.Contains(text, pair.Certificate) {
		t.Errorf("log: %s", text)
	}
	if client, _, err := s.connect(0, &tls.Config{ServerName: "tts.example", RootCAs: a.Pool()}); err != nil || client.PeerCertificates[0].SerialNumber.String() != serial(t, newer) {
		t.Errorf("the other certificate was not renewed: %v", err)
	}
	if err := os.Remove(pair.Key); err != nil {
		t.Fatal(err)
	}
	s.poll()
	if st := s.Status(); s.presented(0) != serial(t, second) || !strings.Contains(st.Failure, "tls-key: stat") {
		t.Errorf("without a key: %+v", st)
	}
	pair.replace(t, first)
	s.poll()
	if st := s.Status(); s.presented(0) != serial(t, first) || st.Failure != "" || !st.Since.IsZero() {
		t.Errorf("in order again: %+v", st)
	}
	if text := s.logged(); !strings.Contains(text, "in order again") {
		t.Errorf("log: %s", text)
	}
}

// A file on a mount that hangs keeps what was read of it in force, keeps no other certificate from being renewed, and does not hold up the end.
func TestMountHangs(t *testing.T) {
	a := securetest.NewAuthority(t)
	hanging, other, renewed := written(t, a.Issue(nil, "stt.example")), written(t, a.Issue(nil, "old.example")), a.Issue(nil, "new.example")
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, plain(hanging, other))
		s.time = now // the certificates are not valid in the bubble's time
		mount := make(chan struct{})
		hang := func(path string) {
			go func() { _, _ = timedread.Do(path, func() (any, error) { <-mount; return nil, nil }) }()
			synctest.Wait()
		}
		hang(hanging.Certificate)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		other.replace(t, renewed)
		time.Sleep(3*pollInterval - time.Second/2)
		if without := s.Uncovered([]string{"stt.example", "new.example"}); len(without) > 0 {
			t.Errorf("%v are not in force", without)
		}
		if st := s.Status(); !strings.Contains(st.Failure, hanging.Certificate+": i/o timeout") {
			t.Errorf("the failure is %q", st.Failure)
		}
		hang(other.Key) // the next look, in half a second, waits for it
		time.Sleep(time.Second)
		end()
		begun := time.Now()
		<-ended
		if took := time.Since(begun); took > lastRead {
			t.Errorf("it ends after %v", took)
		}
		close(mount)
	})
}

// New settings come into force at a reload, and what is bad of them is said at once, without a poll.
func TestReloadedSettings(t *testing.T) {
	a := securetest.NewAuthority(t)
	first, second := a.Issue(nil, "stt.example"), a.Issue(nil, "stt.example")
	s := open(t, nil, plain(written(t, first)), plain(written(t, first)))
	modern := plain(written(t, second))
	modern.MinVersion = tls.VersionTLS13
	bad := plain(KeyPair{"/nowhere/c.pem", "/nowhere/k.pem"})
	for range 3 { // the last one counts
		s.Reload([]ListenerSettings{plain(written(t, first)), plain(written(t, first))})
	}
	s.Reload([]ListenerSettings{modern, bad})
	s.readAgain(<-s.requests, true)
	if st := s.Status(); !strings.Contains(st.Failure, "tls-cert: stat /nowhere/c.pem") {
		t.Errorf("%+v", st)
	}
	if s.presented(0) != serial(t, second) || s.presented(1) != serial(t, first) {
		t.Error("the new settings of the first listener are not in force, or those of the second one are")
	}
	if _, _, err := s.connect(0, &tls.Config{ServerName: "stt.example", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("the lowest version has not changed")
	}
	s.poll() // what is wanted is still bad
	if st := s.Status(); st.Failure == "" {
		t.Error("the bad settings are forgotten")
	}
	s.Reload([]ListenerSettings{modern, modern})
	s.readAgain(<-s.requests, true)
	if st := s.Status(); st.Failure != "" || s.presented(1) != serial(t, second) || len(st.Certificates) != 1 {
		t.Errorf("%+v", st)
	}
}

// New settings that cannot come into force do not keep the certificates of those in force from being renewed.
func TestRenewalBesideBadSettings(t *testing.T) {
	a, clients := securetest.NewAuthority(t), securetest.NewAuthority(t)
	pair := written(t, a.Issue(nil, "stt.example"))
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for name, bad := range map[string]ListenerSettings{
		"a certificate": plain(pair, KeyPair{missing, missing}),
		"an authority":  {Certificates: []KeyPair{pair}, MinVersion: tls.VersionTLS13, ClientCA: []string{clients.File(), missing}},
		"none":          plain(),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil, plain(pair))
			s.Reload([]ListenerSettings{bad})
			s.readAgain(<-s.requests, true)
			renewed := a.Issue(nil, "stt.example")
			pair.replace(t, renewed)
			s.poll()
			if st := s.Status(); s.presented(0) != serial(t, renewed) || st.Failure == "" || !st.Loaded.Equal(s.time) {
				t.Errorf("%+v", st)
			}
			if _, _, err := s.connect(0, &tls.Config{ServerName: "stt.example", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err != nil {
				t.Errorf("the bad settings are in force: %v", err)
			}
			if err := os.Remove(pair.Key); err != nil {
				t.Fatal(err)
			}
			s.poll()
			if st := s.Status(); !strings.Contains(st.Failure, "tls-key: stat "+pair.Key) {
				t.Errorf("the failure %q does not show what is bad of the settings in force", st.Failure)
			}
			pair.replaceKey(t, renewed)
		})
	}
}

// Warnings come at the start, once a day in the log, and end when there is no reason left.
func TestWarnings(t *testing.T) {
	a := securetest.NewAuthority(t)
	lasting := func(days int) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Duration(days)*24*time.Hour)
		}
	}
	long, short := written(t, a.Issue(lasting(90), "long.example")), written(t, a.Issue(lasting(6), "short.example"))
	s := open(t, nil, plain(long, short), plain(long))
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("%q", w)
	}
	if err := os.Chmod(long.Key, 0o640); err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "tls-key "+long.Key+": more users than its owner may use the private key (mode 0640)") {
		t.Errorf("%q", w)
	}
	_ = os.Chmod(long.Key, 0o600)
	s.time = s.time.Add(5 * 24 * time.Hour)
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "tls-cert "+short.Certificate+": the certificate expires at 2") {
		t.Errorf("%q", w)
	}
	s.poll()
	s.poll()
	if text := s.logged(); strings.Count(text, "level=WARN") != 1 {
		t.Errorf("log: %s", text)
	}
	s.time = s.time.Add(75 * 24 * time.Hour)
	if w := s.Warnings(); len(w) != 2 || !strings.Contains(w[0], "in 9 days: renew it") || !strings.Contains(w[1], "has expired at") {
		t.Errorf("%q", w)
	}
	s.poll()
	if text := s.logged(); strings.Count(text, "level=WARN") != 2 {
		t.Errorf("log: %s", text)
	}
}

// A certificate that is not valid now is used if there is no other, with a warning: a restart must not take the service away from clients that do not look.
func TestInvalidNow(t *testing.T) {
	a := securetest.NewAuthority(t)
	at := func(begins, ends time.Duration) KeyPair {
		return written(t, a.Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(begins), time.Now().Add(ends) }, "stt.example"))
	}
	const day = 24 * time.Hour
	for says, pair := range map[string]KeyPair{
		"the certificate has expired at 2": at(-2*day, -day),
		"(it is ":                          at(day, 2*day),
	} {
		s := open(t, nil, plain(pair))
		if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "tls-cert "+pair.Certificate+": the certificate ") || !strings.Contains(w[0], says) {
			t.Errorf("%q", w)
		}
		if _, _, err := s.connect(0, &tls.Config{ServerName: "stt.example", InsecureSkipVerify: true}); err != nil {
			t.Error(err)
		}
		s.readAgain(nil, true) // as by SIGHUP
		if st := s.Status(); st.Failure != "" {
			t.Errorf("%+v", st)
		}
		s.poll()
		if text := s.logged(); strings.Contains(text, "level=WARN") { // what Warnings has is logged at the start
			t.Errorf("log: %s", text)
		}
		pair.replace(t, a.Issue(nil, "stt.example"))
		s.poll()
		if w := s.Warnings(); len(w) != 0 {
			t.Errorf("after the renewal: %q", w)
		}
	}

	s := open(t, nil, plain(at(-day, time.Hour)))
	s.poll()
	_ = s.logged()
	s.time = s.time.Add(2 * time.Hour)
	s.poll()
	if text := s.logged(); strings.Count(text, "the certificate has expired at") != 1 {
		t.Errorf("log: %s", text)
	}
}
