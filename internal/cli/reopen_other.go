//go:build !unix

package cli

import "os"

// reopenSignals is empty: this system has no such signal.
var reopenSignals []os.Signal
