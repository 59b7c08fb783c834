package secure

import (
	"crypto/sha256"
	"crypto/tls"
	"sync"
)

// Source makes the configuration for each TLS connection to one server. Its methods may be called from any goroutine.
//
// The files are read for each connection, so that a certificate is renewed by replacing its files: connections made from then on
// use it, and those that are open go on. As long as the files say the same, connections share one configuration, and with it
// what the server gave the last one to resume its session with (RFC 8446, section 2.2), which spares both sides most of the
// handshake's work. When a file changes that is forgotten, since what is resumed is not verified again.
type Source struct {
	settings Settings

	mu     sync.Mutex
	sum    [sha256.Size]byte // guarded by mu: of the files that config was made of
	config *tls.Config       // guarded by mu
}

// NewSource returns the source of configurations for the settings. Files are not read before they are needed.
func NewSource(s Settings) *Source { return &Source{settings: s} }

// Config returns the configuration for a connection made now, which must not be changed. The error names the field, the file and
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

// sum tells contents apart.
func (f *files) sum() [sha256.Size]byte {
	var sums []byte
	for _, content := range [][]byte{f.ca, f.certificate, f.key} {
		sum := sha256.Sum256(content)
		sums = append(sums, sum[:]...)
	}
	return sha256.Sum256(sums)
}
