// Package securetest issues certificates for tests, so that no key is kept in files that are not the test's own.
package securetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a key of its own. It ends the test when it fails, as all of this package does.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = template, newKey(t)
	der := a.sign(template, &a.key.PublicKey)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *Authority) sign(template *x509.Certificate, key crypto.PublicKey) []byte {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// Issue returns a certificate for servers and clients with these names and IP addresses, valid for an hour, or what change makes
// of it.
func (a *Authority) Issue(change func(*x509.Certificate), names ...string) tls.Certificate {
	a.t.Helper()
	return a.IssueFor(newKey(a.t), change, names...)
}

// IssueFor is Issue for a key that the test has made.
func (a *Authority) IssueFor(key crypto.Signer, change func(*x509.Certificate), names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if change != nil {
		change(template)
	}
	return tls.Certificate{Certificate: [][]byte{a.sign(template, key.Public())}, PrivateKey: key}
}

// Pool returns what a peer trusts that trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Loopback returns the configuration of a server at 127.0.0.1, and that of its clients.
func (a *Authority) Loopback() (server, client *tls.Config) {
	a.t.Helper()
	server = &tls.Config{Certificates: []tls.Certificate{a.Issue(nil, "127.0.0.1")}}
	return server, &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}
}

// File returns the path of a file with the authority's certificate.
func (a *Authority) File() string {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), "ca.pem")
	WritePEM(a.t, path, "CERTIFICATE", a.certificate.Raw)
	return path
}

// Files returns the paths of files with a certificate and its key.
func Files(t testing.TB, c tls.Certificate) (certificate, key string) {
	t.Helper()
	directory := t.TempDir()
	certificate, key = filepath.Join(directory, "certificate.pem"), filepath.Join(directory, "key.pem")
	WriteFiles(t, c, certificate, key)
	return certificate, key
}

// WriteFiles writes a certificate and its key to files, each in one step.
func WriteFiles(t testing.TB, c tls.Certificate, certificate, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	WritePEM(t, certificate, "CERTIFICATE", c.Certificate[0])
	WritePEM(t, key, "PRIVATE KEY", der)
}

// WritePEM writes a file with one block, in one step: who reads it meanwhile sees what it was before.
func WritePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}
