//go:build linux

package backends

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// StartSecureEcho starts an echo server with TLS in this process, and returns its address. It writes the server's certificate, which
// is self-signed and valid for a day, to a file in PEM. stop returns when the server's goroutines have ended.
func StartSecureEcho(file string) (address string, stop func(), err error) {
	certificate, der, err := newCertificate()
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(file, encode("CERTIFICATE", der), 0o644); err != nil {
		return "", nil, err
	}
	server, err := sim.Start(sim.Options{
		Protocol: sim.Echo, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}},
	})
	if err != nil {
		return "", nil, err
	}
	return server.Addr().String(), server.Close, nil
}

// WriteCertificate writes a certificate like that of StartSecureEcho, for a proxy to present to its clients, to files in PEM: the
// certificate, its key, and both.
func WriteCertificate(certificate, key, both string) error {
	pair, der, err := newCertificate()
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	public, secret := encode("CERTIFICATE", der), encode("PRIVATE KEY", private)
	return errors.Join(
		os.WriteFile(certificate, public, 0o644), os.WriteFile(key, secret, 0o600), os.WriteFile(both, slices.Concat(public, secret), 0o600),
	)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newCertificate makes a certificate with an ECDSA key (P-256) for 127.0.0.1 and localhost.
func newCertificate() (pair tls.Certificate, der []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "benchmark"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, der, err
}
