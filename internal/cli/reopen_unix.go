//go:build unix

package cli

import (
	"os"
	"syscall"
)

// reopenSignals are the signals that ask the proxy to open its access log again, as other servers' do.
var reopenSignals = []os.Signal{syscall.SIGUSR1}
