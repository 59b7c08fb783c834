package secure

import (
	"crypto/sha256"
	"crypto/tls"
	"sync"
)

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
