package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// Settings say how the proxy speaks TLS with a server. They are named in errors as in the configuration (tls-ca and so on).
type Settings struct {
	// CA is a file with the certificates, in PEM form, of the authorities to trust; empty for the system's.
	CA string
	// ServerName is the name or IP address that the server's certificate must be for. It is required.
	ServerName string
	// InsecureSkipVerify trusts any certificate for any name.
	InsecureSkipVerify bool
	// Certificate is a file with the certificate, in PEM form, that the server is shown when it asks for one, and with those
	// between it and its authority; empty for none.
	Certificate string
	// Key is a file with the certificate's private key in PEM form.
	Key string
}

// maxFile is the largest file of certificates or keys that is read, in bytes. The bundles of systems have a quarter of it.
const maxFile = 1 << 20

// files are the contents of the files that settings name.
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
		if *file.content, err = readFile(file.path); err != nil {
			return files{}, fmt.Errorf("%s: %w", file.field, err)
		}
	}
	return f, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // reading it might never end
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

// config makes a configuration of the settings and what their files say.
func (s *Settings) config(f files) (*tls.Config, error) {
	config := &tls.Config{
		ServerName:         s.ServerName,
		InsecureSkipVerify: s.InsecureSkipVerify,
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"}, // there is no other way to speak WebSocket yet
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
		// Small records are for browsers that show a page's beginning early. What is relayed is written as it arrives.
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
		return nil, fmt.Errorf("tls-key: it must be given, because tls-certificate (%s) is", s.Certificate)
	case s.Key != "":
		return nil, fmt.Errorf("tls-certificate: it must be given, because tls-key (%s) is", s.Key)
	}
	return config, nil
}

// authorities parses certificates in PEM form. Unlike package x509 it passes over none that it cannot read.
func authorities(content []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		count++
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", count, err)
		}
		pool.AddCert(certificate)
	}
	if count == 0 {
		return nil, errors.New("there is no certificate in PEM form in it")
	}
	return pool, nil
}
