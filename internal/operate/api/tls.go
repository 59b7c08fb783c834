package api

import "time"

// TLS is how the proxy speaks TLS with clients.
type TLS struct {
	Certificates []Certificate `json:"certificates"` // in force
	Loaded       time.Time     `json:"loaded"`       // when certificates were read last that had changed
	// Failure is what is wrong with the files of certificates, keys and authorities, so that what was read before stays in force. Absent if
	// nothing is wrong.
	Failure      string          `json:"failure,omitempty"`
	FailureSince time.Time       `json:"failure_since,omitzero"`
	Handshakes   []TLSHandshakes `json:"handshakes"` // of clients since the start
}

// Certificate is a certificate that the proxy presents to clients.
type Certificate struct {
	File      string    `json:"file"`  // tls-auto:NAME for one that an authority issues by ACME
	Names     []string  `json:"names"` // names and IP addresses that it is for
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	State     string    `json:"state"` // valid, expiring (in less than 14 days, or a third of its life), expired, or missing: the authority has issued none yet
	// Failure is why the last attempt to get or renew it from the authority failed. Absent if it did not.
	Failure string `json:"failure,omitempty"`
}

// The states of a certificate.
const (
	CertificateValid    = "valid"
	CertificateExpiring = "expiring"
	CertificateExpired  = "expired"
	CertificateMissing  = "missing"
)

// TLSHandshakes is how many TLS handshakes had a result.
type TLSHandshakes struct {
	// Result is full or resumed if it succeeded; otherwise not-tls, timeout, left, version, parameters, certificate, refused-by-client or broken.
	Result  string `json:"result"`
	Version string `json:"version"` // 1.2 or 1.3; none if it failed before the version was agreed on
	Count   uint64 `json:"count"`
}
