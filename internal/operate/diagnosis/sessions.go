package diagnosis

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Failed reports whether a session ended with a fault of a backend or the proxy: not by its client, unless that has left because its backend
// had failed, not as planned, and not because an operator ended it.
func Failed(s *api.Session) bool {
	switch {
	case s.By == "":
		return false
	case s.By == "client":
		return s.Class == meter.BackendFailed.String() || s.Class == meter.ConnectionLost.String()
	case s.Code == 1000 || s.Code == 1001 || s.Code == 1012:
		return false
	}
	return true
}
