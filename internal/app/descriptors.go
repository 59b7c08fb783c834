package app

import (
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/machine"
	"github.com/wsbouncer/wsbouncer/internal/pool"
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

// apply puts a snapshot in force, and warns if the file-descriptor limit is too low for it.
func (p *Proxy) apply(snapshot *config.Snapshot) error {
	if err := CheckHealthPath(p.settings.HealthPath, snapshot); err != nil {
		return err
	}
	if err := p.services.Apply(snapshot); err != nil {
		return err
	}
	warning := Need(snapshot).Warning(machine.Limit())
	if warning != "" && warning != p.warned {
		p.log.Warn("file-descriptor limit too low", "reason", warning)
	}
	p.warned = warning
	return nil
}

// Need returns the most that a configuration may need of this machine.
func Need(snapshot *config.Snapshot) (n machine.Need) {
	for name, service := range snapshot.Services() {
		n.Waiting += service.Queue
		for _, b := range snapshot.Members(name) {
			if b.State != pool.Disabled.String() {
				n.Connections += b.Connections
			}
		}
	}
	return n
}

// Need returns the most that the only service in flags-only operation may need of this machine. The settings must have passed Check.
func (s *Settings) Need() machine.Need {
	fixed, err := s.check()
	if err != nil {
		return machine.Need{}
	}
	snapshot, err := fixed.snapshot()
	if err != nil {
		return machine.Need{}
	}
	return Need(snapshot)
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
