package app

import (
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// countDescriptors starts to account for the process's file descriptors.
func (p *Proxy) countDescriptors() *machine.Descriptors {
	return machine.NewDescriptors(machine.Options{
		Connections: p.loops.Connections,
		Clients:     func() int64 { return p.sessions.Active() },
		Shed:        func(n int) int { return p.services.Shed(n) },
		Share:       func() { p.services.Share() },
		Log:         p.log,
	})
}

// sparing closes each connection after its answer while descriptors are short, since few are reserved for the admin API.
func (p *Proxy) sparing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.descriptors.Accepting() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
