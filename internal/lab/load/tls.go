package load

import (
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// checkTLS sets how a target is reached over TLS, and reads the files once, so that mistakes are reported before the run begins.
func (o Options) checkTLS(url string, target *handshake.Target, f *faults) {
	if !target.Secure() {
		if o.TLS != (secure.Settings{}) {
			f.add("URL: %q does not use TLS: use wss:// with the flags that begin with tls-", url)
		}
		return
	}
	target.SetTLS(o.TLS)
	if _, err := target.TLS(); err != nil {
		f.add("%w", err)
	}
}
