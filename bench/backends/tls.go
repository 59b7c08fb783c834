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
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"time"
)

// Certificate is a self-signed certificate for servers on this machine: for 127.0.0.1 and localhost.
type Certificate struct {
	// File holds it in PEM, for those that are to trust it.
	File string

	pair tls.Certificate
}

// NewCertificate makes a certificate that is valid for a day, and writes it to a file.
func NewCertificate(file string) (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return &Certificate{File: file, pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, nil
}

// WithTLS puts TLS in front of an address and returns the address of that. stop ends its connections and returns when its
// goroutines have ended.
func (c *Certificate) WithTLS(address string) (secure string, stop func(), err error) {
	config := &tls.Config{Certificates: []tls.Certificate{c.pair}, NextProtos: []string{"http/1.1"}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return "", nil, err
	}
	t := &terminator{address: address, open: map[net.Conn]bool{}}
	t.running.Go(func() { t.accept(listener) })
	return listener.Addr().String(), func() {
		_ = listener.Close()
		t.closeAll()
		t.running.Wait()
	}, nil
}

// terminator relays what comes over TLS to an address in clear, and back.
type terminator struct {
	address string
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	open   map[net.Conn]bool
	closed bool
}

func (t *terminator) accept(listener net.Listener) {
	for {
		outside, err := listener.Accept()
		if err != nil {
			return
		}
		t.running.Go(func() { t.relay(outside) })
	}
}

// relay relays until one side ends.
func (t *terminator) relay(outside net.Conn) {
	defer outside.Close()
	if !t.hold(outside) {
		return
	}
	defer t.release(outside)
	inside, err := net.Dial("tcp", t.address)
	if err != nil {
		return
	}
	defer inside.Close()
	t.running.Go(func() {
		_, _ = io.Copy(outside, inside)
		_ = outside.Close()
	})
	_, _ = io.Copy(inside, outside)
}

func (t *terminator) hold(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.open[c] = true
	}
	return !t.closed
}

func (t *terminator) release(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}

func (t *terminator) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := range t.open {
		_ = c.Close()
	}
}
