package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ListenerSettings say how one listener speaks TLS with clients. Errors name them as the settings of the process do (tls-cert and
// so on).
type ListenerSettings struct {
	// Certificates are the certificates to present. A client gets the one for the name that it asks for (SNI), and the first one if
	// it asks for no name, or for one that none is for.
	Certificates []KeyPair
	// ClientCA are files with the certificates of the authorities that sign clients' certificates, in PEM form.
	ClientCA []string
	// ClientAuth says whether clients must present a certificate.
	ClientAuth ClientAuth
	// MinVersion is the lowest version of TLS, such as [tls.VersionTLS12].
	MinVersion uint16
}

// KeyPair names the files of a certificate, with the intermediate certificates behind it, and of its private key, in PEM form.
type KeyPair struct{ Certificate, Key string }

// ClientAuth says whether clients must present a certificate.
type ClientAuth int

// The ways to treat clients' certificates.
const (
	NoClientCertificate       ClientAuth = iota // clients are not asked for one
	OptionalClientCertificate                   // clients are asked for one; if they present one, it must be valid
	RequiredClientCertificate                   // clients must present a valid one
)

// files returns the paths of all files.
func (s *ListenerSettings) files() []string {
	var paths []string
	for _, pair := range s.Certificates {
		paths = append(paths, pair.Certificate, pair.Key)
	}
	return append(paths, s.ClientCA...)
}

// certificate is a certificate that a listener can present, and its key. It is immutable.
type certificate struct {
	tls.Certificate
	pair  KeyPair
	names []string // that it is for, in lower case: DNS names, perhaps with a wildcard, and IP addresses
}

// read reads a certificate and its key, and checks whether clients can accept it while it is valid. An error names the setting, the file and
// the reason.
func (p KeyPair) read() (*certificate, error) {
	content, err := readInTime(p.Certificate)
	if err != nil {
		return nil, fmt.Errorf("tls-cert: %w", err)
	}
	key, err := readInTime(p.Key)
	if err != nil {
		return nil, fmt.Errorf("tls-key: %w", err)
	}
	if block, _ := pem.Decode(content); block == nil {
		return nil, fmt.Errorf("tls-cert %s: no certificate in PEM form", p.Certificate)
	}
	if isEncrypted(key) {
		return nil, fmt.Errorf("tls-key %s: the key is encrypted: write it without a passphrase (openssl pkey -in %s -out FILE)", p.Key, p.Key)
	}
	pair, err := tls.X509KeyPair(content, key)
	if err != nil {
		return nil, fmt.Errorf("tls-cert %s with tls-key %s: %w%s", p.Certificate, p.Key, err, hint(content, key))
	}
	c := &certificate{Certificate: pair, pair: p, names: namesOf(pair.Leaf)}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("tls-cert %s: %w", p.Certificate, err)
	}
	return c, nil
}

// invalid returns why clients do not accept the certificate at this time; empty if they do.
func (c *certificate) invalid(now time.Time) string {
	switch {
	case now.After(c.Leaf.NotAfter):
		return fmt.Sprintf("tls-cert %s: the certificate has expired at %s, and clients refuse it: replace the file", c.pair.Certificate, clock(c.Leaf.NotAfter))
	case now.Before(c.Leaf.NotBefore):
		return fmt.Sprintf("tls-cert %s: the certificate is not valid before %s, and clients refuse it (it is %s now: check this machine's clock)",
			c.pair.Certificate, clock(c.Leaf.NotBefore), clock(now))
	}
	return ""
}

// check returns why clients would never accept the certificate; nil if they can.
func (c *certificate) check() error {
	leaf := c.Leaf
	switch {
	case len(c.names) == 0:
		return errors.New("the certificate is for no name: clients look for subject alternative names, and ignore the common name")
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("the certificate is not for servers: its extended key usage lacks serverAuth")
	}
	return nil
}

// hint says what may be wrong with a certificate that its key does not fit; empty if that is not known.
func hint(content, key []byte) string {
	block, rest := pem.Decode(content)
	for block != nil && len(rest) > 0 {
		if _, err := tls.X509KeyPair(rest, key); err == nil {
			return ": put the server's own certificate first in the file"
		}
		block, rest = pem.Decode(rest)
	}
	return ""
}

// isEncrypted reports whether a private key needs a passphrase.
func isEncrypted(key []byte) bool {
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.HasSuffix(block.Type, "PRIVATE KEY") && block.Headers["DEK-Info"] != "" {
			return true
		}
	}
	return false
}

// namesOf returns the names and IP addresses that a certificate is for, in lower case.
func namesOf(leaf *x509.Certificate) []string {
	var names []string
	for _, name := range leaf.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// covers reports whether one of a certificate's names stands for a host: a name in lower case, or an IP address.
func covers(names []string, host string) bool {
	return slices.Contains(names, host) || net.ParseIP(host) == nil && slices.Contains(names, wildcard(host))
}

// wildcard returns the name with its first label replaced by a wildcard, which stands for one label only (RFC 9525, section 6.3).
func wildcard(host string) string {
	_, rest, ok := strings.Cut(host, ".")
	if !ok {
		return ""
	}
	return "*." + rest
}

// readClientCA reads the authorities that sign clients' certificates.
func readClientCA(path string) ([]*x509.Certificate, error) {
	content, err := readInTime(path)
	if err != nil {
		return nil, fmt.Errorf("tls-client-ca: %w", err)
	}
	all, err := certificates(content)
	if err != nil {
		return nil, fmt.Errorf("tls-client-ca %s: %w", path, err)
	}
	for i, c := range all {
		if !c.IsCA {
			return nil, fmt.Errorf("tls-client-ca %s: certificate %d (%s) is not that of an authority: its basic constraints lack CA", path, i+1, c.Subject)
		}
	}
	return all, nil
}

// Warned returns how long before the end of its life a certificate's owner is warned: 14 days, or a third of the life of a certificate
// that is made for less than 42 days.
func Warned(notBefore, notAfter time.Time) time.Duration {
	return min(14*24*time.Hour, notAfter.Sub(notBefore)/3)
}

// expiring returns a warning if the certificate is not valid, or ends soon; empty otherwise.
func (c *certificate) expiring(now time.Time) string {
	if text := c.invalid(now); text != "" {
		return text
	}
	switch left := c.Leaf.NotAfter.Sub(now); {
	case left < Warned(c.Leaf.NotBefore, c.Leaf.NotAfter):
		return fmt.Sprintf("tls-cert %s: the certificate expires at %s, in %s: renew it", c.pair.Certificate, clock(c.Leaf.NotAfter), days(left))
	}
	return ""
}

// exposed returns a warning if other users of this machine can read the key; empty otherwise.
func (p KeyPair) exposed() string {
	info, err := stat(p.Key)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 { // Windows has no such permissions
		return ""
	}
	return fmt.Sprintf("tls-key %s: more users than its owner may use the private key (mode %04o): set its mode to 0600", p.Key, info.Mode().Perm())
}

// days returns a time span as people say it.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
}

// clock returns a time as logs have it.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
