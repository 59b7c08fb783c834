package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// adminTLS reads the certificate of the admin API; nil for none. log is nil if the certificate is not kept up to date.
func (s *Settings) adminTLS(log *slog.Logger) (*secure.Listeners, error) {
	if s.AdminTLSCert == "" {
		return nil, nil
	}
	if log != nil {
		log = log.With("listener", "admin API")
	}
	secured, err := secure.NewListeners(log, nil, secure.ListenerSettings{
		Certificates: []secure.KeyPair{{Certificate: s.AdminTLSCert, Key: s.AdminTLSKey}}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		return nil, fmt.Errorf("admin-%w", err) // it begins with tls-cert or tls-key
	}
	return secured, nil
}

// checkAdminTLS reads the certificate as Start does, and returns what is likely to be wrong with it.
func (s *Settings) checkAdminTLS() (warnings []string, err error) {
	secured, err := s.adminTLS(nil)
	if err != nil || secured == nil {
		return nil, err
	}
	return adminWarnings(secured), nil
}

func adminWarnings(secured *secure.Listeners) (warnings []string) {
	for _, text := range secured.Warnings() {
		warnings = append(warnings, "admin-"+text)
	}
	return warnings
}

// secureAdmin has a listener of the admin API speak TLS, if the settings say so.
func (p *Proxy) secureAdmin(listener net.Listener) (_ net.Listener, err error) {
	if p.adminSecured, err = p.settings.adminTLS(p.log); err != nil {
		return listener, err
	}
	return p.adminSpeaksTLS(listener), nil
}

// adminSpeaksTLS has a listener of the admin API speak TLS, if all do.
func (p *Proxy) adminSpeaksTLS(listener net.Listener) net.Listener {
	if p.adminSecured == nil {
		return listener
	}
	return adminTLSListener{listener, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.adminSecured.Listener(0).Config(), nil },
	}}
}

// adminTLSListener is a [tls.NewListener] whose connections an event loop can take over, see [peers.Peers.Forward].
type adminTLSListener struct {
	net.Listener
	config *tls.Config
}

// Accept implements [net.Listener].
func (l adminTLSListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return secure.Server(nc, l.config, nil), nil
}

// keepAdminTLS keeps the certificate of the admin API up to date until the proxy is closed.
func (p *Proxy) keepAdminTLS() {
	if p.adminSecured == nil {
		return
	}
	for _, text := range adminWarnings(p.adminSecured) {
		p.log.Warn(text)
	}
	p.background.Go(func() { p.adminSecured.Run(p.stopped) })
}
