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
	"math/big"
	"net"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/sim"
)

// StartSecureEcho starts an echo server with TLS in this process, and returns its address. It writes the server's certificate, which
// is self-signed and valid for a day, to a file in PEM. stop returns when the server's goroutines have ended.
func StartSecureEcho(file string) (address string, stop func(), err error) {
	certificate, err := newCertificate(file)
	if err != nil {
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

// newCertificate makes a certificate for 127.0.0.1 and localhost.
func newCertificate(file string) (pair tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "benchmark"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair, err
	}
	pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return pair, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}
