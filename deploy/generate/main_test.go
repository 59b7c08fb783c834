package main

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
)

// TestRootCertificates reads the image's root certificates as crypto/x509 does, and expects authorities that much of the web depends on.
func TestRootCertificates(t *testing.T) {
	names := map[string]bool{}
	now := time.Now()
	for rest := rootCertificates(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(rest) > 0 {
				t.Errorf("%d bytes are no PEM", len(rest))
			}
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if now.Before(certificate.NotBefore) {
			t.Errorf("%s is not valid yet", certificate.Subject)
		}
		names[certificate.Subject.CommonName] = true
	}
	for _, name := range []string{"ISRG Root X1", "DigiCert Global Root G2", "GTS Root R1", "Amazon Root CA 1"} {
		if !names[name] {
			t.Errorf("%s is missing among %d", name, len(names))
		}
	}
}
