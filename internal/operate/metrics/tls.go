package metrics

import "github.com/wsbouncer/wsbouncer/internal/operate/api"

// ofTLS returns the metrics of TLS towards clients. There are none if no listener speaks TLS.
func ofTLS() []family {
	with := func(read func(*api.TLS, put)) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			if s.TLS != nil {
				read(s.TLS, put)
			}
		}
	}
	return []family{
		counter("tls_handshakes_total", "TLS handshakes of clients, by result (full, resumed, or why it failed) and version (none if it failed before).",
			with(func(t *api.TLS, put put) {
				for _, h := range t.Handshakes {
					put(float64(h.Count), h.Result, h.Version)
				}
			}), "result", "version"),
		gauge("tls_certificate_expiry_timestamp_seconds", "Unix time at which a certificate in force expires. The label is its file, or tls-auto:NAME.",
			with(func(t *api.TLS, put put) {
				for _, c := range t.Certificates {
					if c.State != api.CertificateMissing {
						put(unix(c.NotAfter), c.File)
					}
				}
			}), "certificate"),
		gauge("tls_files_failed", "1 while files of certificates, keys or authorities are bad, and what was read before stays in force. Otherwise 0.",
			with(func(t *api.TLS, put put) { put(toFloat(t.Failure != "")) })),
		gauge("tls_loaded_timestamp_seconds", "Unix time at which certificates were loaded that had changed.",
			with(func(t *api.TLS, put put) { put(unix(t.Loaded)) })),
	}
}
