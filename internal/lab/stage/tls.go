package stage

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is one for 127.0.0.1 that is its own authority, in files of a folder of its own. It is immutable.
type certificate struct {
	folder string
	pair   tls.Certificate
}

// lifetime is how long the certificate is valid: longer than any hunt.
const lifetime = 30 * 24 * time.Hour

// newCertificate makes a certificate. The caller removes it.
func newCertificate() (*certificate, error) {
	c := new(certificate)
	if err := c.make(); err != nil {
		c.remove()
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return c, nil
}

func (c *certificate) make() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "stage"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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
	if c.folder, err = os.MkdirTemp("", "stage-"); err != nil {
		return err
	}
	if err := os.WriteFile(c.file(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(c.keyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return err
	}
	c.pair, err = tls.LoadX509KeyPair(c.file(), c.keyFile())
	return err
}

func (c *certificate) file() string    { return filepath.Join(c.folder, "certificate.pem") }
func (c *certificate) keyFile() string { return filepath.Join(c.folder, "key.pem") }

// server returns the configuration of a server with the certificate.
func (c *certificate) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.pair}}
}

// client returns the configuration of clients that trust nothing but the certificate. They resume sessions.
func (c *certificate) client() *tls.Config {
	trusted := x509.NewCertPool()
	trusted.AddCert(c.pair.Leaf)
	return &tls.Config{RootCAs: trusted, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
}

func (c *certificate) remove() {
	if c.folder != "" {
		_ = os.RemoveAll(c.folder)
	}
}
