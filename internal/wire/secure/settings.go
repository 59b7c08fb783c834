package secure

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
)

// Settings say how the proxy speaks TLS with a server. Errors name them as the configuration does (tls-ca and so on).
type Settings struct {
	// CA is a file with the certificates of the authorities to trust, in PEM form; empty for the system's authorities.
	CA string
	// ServerName is the name or IP address that the server's certificate must be for. It is required.
	ServerName string
	// InsecureSkipVerify trusts any certificate for any name.
	InsecureSkipVerify bool
	// Certificate is a file, in PEM form, with the certificate to present when the server asks for one, and with the intermediate
	// certificates; empty for none.
	Certificate string
	// Key is a file with the certificate's private key in PEM form.
	Key string
}

// maxFile is the largest size of a file of certificates or keys, in bytes. The bundles of operating systems have about a quarter of it.
const maxFile = 1 << 20

// files are the contents of the files that Settings name.
type files struct{ ca, certificate, key []byte }

// read reads the files.
func (s *Settings) read() (f files, err error) {
	for _, file := range []struct {
		field, path string
		content     *[]byte
	}{{"tls-ca", s.CA, &f.ca}, {"tls-certificate", s.Certificate, &f.certificate}, {"tls-key", s.Key, &f.key}} {
		if file.path == "" {
			continue
		}
		if *file.content, err = readInTime(file.path); err != nil {
			return files{}, fmt.Errorf("%s: %w", file.field, err)
		}
	}
	return f, nil
}

// readFile reads a regular file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // reading it might never return
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return content, err
}

// readInTime is readFile for a limited time.
func readInTime(path string) ([]byte, error) {
	return timedread.Do(path, func() ([]byte, error) { return readFile(path) })
}

// stat asks the file system about a file, for a limited time.
func stat(path string) (os.FileInfo, error) {
	return timedread.Do(path, func() (os.FileInfo, error) { return os.Stat(path) })
}

// config returns the TLS configuration for the settings and the contents of their files.
func (s *Settings) config(f files) (*tls.Config, error) {
	config := &tls.Config{
		ServerName:         s.ServerName,
		InsecureSkipVerify: s.InsecureSkipVerify,
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"}, // WebSocket over HTTP/2 is not supported
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
		// Small first records are for browsers that show the beginning of a page early. The proxy writes data as it arrives.
		DynamicRecordSizingDisabled: true,
	}
	if s.CA != "" {
		pool, err := authorities(f.ca)
		if err != nil {
			return nil, fmt.Errorf("tls-ca: %s: %w", s.CA, err)
		}
		config.RootCAs = pool
	}
	switch {
	case s.Certificate != "" && s.Key != "":
		certificate, err := tls.X509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, fmt.Errorf("tls-certificate %s with tls-key %s: %w", s.Certificate, s.Key, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	case s.Certificate != "":
		return nil, fmt.Errorf("tls-key is missing: tls-certificate (%s) needs it", s.Certificate)
	case s.Key != "":
		return nil, fmt.Errorf("tls-certificate is missing: tls-key (%s) needs it", s.Key)
	}
	return config, nil
}

// Authorities reads a file with the certificates of the authorities to trust, in PEM form.
func Authorities(path string) (*x509.CertPool, error) {
	content, err := readInTime(path)
	if err != nil {
		return nil, err
	}
	pool, err := authorities(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pool, nil
}

// authorities parses certificates in PEM form. Unlike package x509, it fails if it cannot parse one of them.
func authorities(content []byte) (*x509.CertPool, error) {
	all, err := certificates(content)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// certificates parses certificates in PEM form, at least one.
func certificates(content []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return all, nil
}

// Source returns the configuration for each TLS connection to one server. Any goroutine may call its methods.
//
// The files are read for each connection. So a certificate is renewed by replacing its files: new connections use it, and open ones
// are not affected. While the contents of the files stay the same, connections share one configuration, and with it the ticket that
// the server has issued for resuming a session (RFC 8446, section 2.2), which saves both sides most of the handshake's work. When a
// file changes, the ticket is dropped, because certificates are not verified again when a session is resumed.
type Source struct {
	settings Settings // static

	mu     sync.Mutex
	sum    [sha256.Size]byte // guarded by mu: the sum of the files that config was made from
	config *tls.Config       // guarded by mu: nil before the first connection
}

// NewSource returns the source of configurations for the settings. It reads no files yet.
func NewSource(s Settings) *Source { return &Source{settings: s} }

// Settings returns what the source was made for.
func (s *Source) Settings() Settings { return s.settings }

// Config returns the configuration for a new connection. The caller must not change it. An error names the field, the file and
// the reason.
func (s *Source) Config() (*tls.Config, error) {
	f, err := s.settings.read()
	if err != nil {
		return nil, err
	}
	sum := f.sum()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil || s.sum != sum {
		config, err := s.settings.config(f)
		if err != nil {
			return nil, err
		}
		s.config, s.sum = config, sum
	}
	return s.config, nil
}

// sum returns a checksum of the contents.
func (f *files) sum() [sha256.Size]byte {
	var sums []byte
	for _, content := range [][]byte{f.ca, f.certificate, f.key} {
		sum := sha256.Sum256(content)
		sums = append(sums, sum[:]...)
	}
	return sha256.Sum256(sums)
}
