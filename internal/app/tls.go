package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/acme"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// listenTLS reads the certificates and opens the listeners for clients that speak TLS.
func (p *Proxy) listenTLS() (err error) {
	p.plain = len(p.listeners)
	if len(p.settings.TLSListen) == 0 {
		return nil
	}
	if p.acme, err = p.settings.acme(p.log); err != nil {
		return err
	}
	if p.secured, err = secure.NewListeners(p.log, issuer(p.acme), p.settings.Secured()...); err != nil {
		return err
	}
	for _, address := range p.settings.TLSListen {
		listener, err := p.inheritance.listenTCP(takeover.TLS, address)
		if err != nil {
			return err
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
	if p.acme != nil {
		if err := p.acme.Start(p.listeners[p.plain].Addr()); err != nil { // what was kept is in force
			p.log.Error("no certificates can be got from the authority", "error", err)
		}
	}
	p.background.Go(func() { p.secured.Run(p.stopped) })
}

// acme returns the manager of certificates that an authority issues; nil for none. Close ends it.
func (s *Settings) acme(log *slog.Logger) (*acme.Manager, error) {
	if len(s.TLSAuto) == 0 {
		return nil, nil
	}
	o := acme.Options{Names: s.TLSAuto, Directory: s.TLSAutoDirectory, Folder: state.ACME(s.Directory()), Log: log}
	if s.TLSAutoCA != "" {
		roots, err := secure.Authorities(s.TLSAutoCA)
		if err != nil {
			return nil, fmt.Errorf("tls-auto-ca: %w", err)
		}
		o.Roots = roots
	}
	return acme.New(o), nil
}

// issuer returns a manager as the issuer that it is; nil for none.
func issuer(m *acme.Manager) secure.Issuer {
	if m == nil {
		return nil
	}
	return m
}

// reloadCertificates reads the files of TLS certificates, keys and authorities again. It does not wait for that. What is bad does not come
// into force, and is logged.
func (p *Proxy) reloadCertificates() {
	if p.secured != nil {
		p.secured.Reload(p.live.Load().Secured())
	}
	if p.adminSecured != nil {
		p.adminSecured.Reload(nil) // which file it is needs a restart
	}
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

// CheckTLS reads the certificates as Start does, and returns what is likely to be wrong with them. snapshot is nil for a configuration
// that does not exist yet.
func (s *Settings) CheckTLS(snapshot *config.Snapshot) (warnings []string, err error) {
	if warnings, err = s.checkAdminTLS(); err != nil || len(s.TLSListen) == 0 {
		return warnings, err
	}
	if s.TLSAutoCA != "" && len(s.TLSAuto) > 0 {
		if _, err := secure.Authorities(s.TLSAutoCA); err != nil {
			return nil, fmt.Errorf("tls-auto-ca: %w", err)
		}
	}
	secured, err := secure.NewListeners(nil, named(s.TLSAuto).issuer(), s.Secured()...)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, secured.Warnings()...)
	if text := uncovered(secured, snapshot); text != "" {
		warnings = append(warnings, text)
	}
	return warnings, nil
}

// named is an issuer for names, which issues nothing: it is for checks.
type named []string

func (n named) issuer() secure.Issuer {
	if len(n) == 0 {
		return nil
	}
	return n
}

// Covers implements [secure.Issuer].
func (n named) Covers(name string) bool { return slices.Contains(n, name) }

// GetCertificate implements [secure.Issuer].
func (n named) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("no certificate")
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

// tls returns the statistics of TLS; nil without it.
func (p *Proxy) tls(handshakes []admission.TLSHandshakes) *api.TLS {
	if p.secured == nil && p.adminSecured == nil {
		return nil
	}
	all := &api.TLS{Certificates: []api.Certificate{}, Handshakes: []api.TLSHandshakes{}}
	add := func(secured *secure.Listeners, listener string) {
		if secured == nil {
			return
		}
		status := secured.Status()
		if status.Loaded.After(all.Loaded) {
			all.Loaded = status.Loaded
		}
		if all.Failure == "" && status.Failure != "" {
			all.Failure, all.FailureSince = status.Failure, status.Since
			if listener != "" {
				all.Failure = listener + ": " + status.Failure
			}
		}
		for _, c := range status.Certificates {
			all.Certificates = append(all.Certificates, api.Certificate{
				File: c.File, Listener: listener, Names: c.Names, NotBefore: c.NotBefore, NotAfter: c.NotAfter, State: stateOf(c.NotBefore, c.NotAfter),
			})
		}
	}
	add(p.secured, "")
	add(p.adminSecured, api.ListenerAdmin)
	if p.acme != nil {
		for _, c := range p.acme.Certificates() {
			one := api.Certificate{File: api.IssuedPrefix + c.Name, Names: []string{c.Name}, State: api.CertificateMissing, Failure: c.Failure}
			if c.Leaf != nil {
				one.NotBefore, one.NotAfter, one.State = c.Leaf.NotBefore, c.Leaf.NotAfter, stateOf(c.Leaf.NotBefore, c.Leaf.NotAfter)
			}
			all.Certificates = append(all.Certificates, one)
		}
	}
	for _, h := range handshakes {
		all.Handshakes = append(all.Handshakes, api.TLSHandshakes(h))
	}
	return all
}

// stateOf returns the state of a certificate.
func stateOf(notBefore, notAfter time.Time) string {
	switch left := time.Until(notAfter); {
	case left <= 0:
		return api.CertificateExpired
	case time.Until(notBefore) > 0:
		return api.CertificateNotYet
	case left < secure.Warned(notBefore, notAfter):
		return api.CertificateExpiring
	}
	return api.CertificateValid
}
