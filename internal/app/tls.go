package app

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/api"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/secure"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// listenTLS reads the certificates and opens the listeners for clients that speak TLS.
func (p *Proxy) listenTLS() (err error) {
	p.plain = len(p.listeners)
	if len(p.settings.TLSListen) == 0 {
		return nil
	}
	if p.secured, err = secure.NewListeners(p.log, nil, p.settings.Secured()...); err != nil {
		return err
	}
	for _, address := range p.settings.TLSListen {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("--tls-listen: %w", err)
		}
		p.listeners = append(p.listeners, listener)
	}
	return nil
}

// serveClients accepts clients on all listeners, and keeps certificates up to date.
func (p *Proxy) serveClients() {
	for i, listener := range p.listeners {
		if i < p.plain {
			p.sessions.Serve(listener)
			p.log.Info("listening", "address", listener.Addr().String())
			continue
		}
		p.sessions.ServeTLS(listener, p.secured.Listener(i-p.plain).Config)
		p.log.Info("listening", "address", listener.Addr().String(), "tls", true)
	}
	if p.secured == nil {
		return
	}
	for _, text := range p.secured.Warnings() {
		p.log.Warn(text)
	}
	p.background.Go(func() { p.secured.Run(p.stopped) })
}

// hosts returns the hosts that the services of a configuration are for, each once.
func hosts(snapshot *config.Snapshot) (all []string) {
	for _, service := range snapshot.Services() {
		if service.Host != "" && !slices.Contains(all, service.Host) {
			all = append(all, service.Host)
		}
	}
	slices.Sort(all)
	return all
}

// uncovered returns a warning if services are for hosts that no certificate is for; empty otherwise.
func uncovered(secured *secure.Listeners, snapshot *config.Snapshot) string {
	if secured == nil || snapshot == nil {
		return ""
	}
	without := secured.Uncovered(hosts(snapshot))
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("no certificate of tls-cert is for %s, which services have as host: clients that ask for it over TLS get another certificate, and refuse it",
		strings.Join(without, ", "))
}

// CheckTLS reads the certificates as Start does, and returns what is likely to be a mistake about them. snapshot is nil for a configuration
// that does not exist yet.
func (s *Settings) CheckTLS(snapshot *config.Snapshot) (warnings []string, err error) {
	if len(s.TLSListen) == 0 {
		return nil, nil
	}
	secured, err := secure.NewListeners(nil, nil, s.Secured()...)
	if err != nil {
		return nil, err
	}
	warnings = secured.Warnings()
	if text := uncovered(secured, snapshot); text != "" {
		warnings = append(warnings, text)
	}
	return warnings, nil
}

// warnOfHosts warns, once, of services whose hosts no certificate is for. It is called with each configuration that comes into force, by
// one goroutine at a time.
func (p *Proxy) warnOfHosts(snapshot *config.Snapshot) {
	text := uncovered(p.secured, snapshot)
	if text != "" && text != p.warnedHosts {
		p.log.Warn(text)
	}
	p.warnedHosts = text
}

// tls returns the statistics of TLS towards clients; nil without it.
func (p *Proxy) tls(handshakes []session.TLSHandshakes) *api.TLS {
	if p.secured == nil {
		return nil
	}
	status := p.secured.Status()
	all := &api.TLS{Loaded: status.Loaded, Failure: status.Failure, FailureSince: status.Since, Certificates: []api.Certificate{}, Handshakes: []api.TLSHandshakes{}}
	for _, c := range status.Certificates {
		state := api.CertificateValid
		switch left := time.Until(c.NotAfter); {
		case left <= 0:
			state = api.CertificateExpired
		case left < secure.Warned(c.NotBefore, c.NotAfter):
			state = api.CertificateExpiring
		}
		all.Certificates = append(all.Certificates, api.Certificate{File: c.File, Names: c.Names, NotBefore: c.NotBefore, NotAfter: c.NotAfter, State: state})
	}
	for _, h := range handshakes {
		all.Handshakes = append(all.Handshakes, api.TLSHandshakes(h))
	}
	return all
}
