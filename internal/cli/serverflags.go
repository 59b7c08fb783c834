package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// serverFlags are how a command reaches a server itself, as the clients of a profile do.
type serverFlags struct {
	header   headerFlag
	protocol string
	tls      secure.Settings
}

func (s *serverFlags) add(f *pflag.FlagSet) {
	f.Var(&s.header, "header", "header of the handshake, "+headerHelp)
	f.StringVar(&s.protocol, "subprotocol", "", "`name` of the WebSocket subprotocol to request (default: the profile's)")
	f.StringVar(&s.tls.CA, "tls-ca", "", "PEM `file` with the authorities to trust for wss:// (default: the system's)")
	f.StringVar(&s.tls.ServerName, "tls-server-name", "", "`name` that the server's certificate must be for (default: the URL's host)")
	f.StringVar(&s.tls.Certificate, "tls-certificate", "", "PEM `file` with the certificate to present to the server")
	f.StringVar(&s.tls.Key, "tls-key", "", "PEM `file` with the private key of --tls-certificate")
}

// target returns the server at an address, which was given by a flag or an argument.
func (s *serverFlags) target(given, url string, p *profile.Profile) (*handshake.Target, error) {
	target, err := handshake.ParseTarget(url)
	if err != nil {
		return nil, usageError(fmt.Errorf("%s: %w", given, err))
	}
	if target.Secure() {
		target.SetTLS(s.tls)
	}
	header := make(http.Header)
	for _, field := range s.header.fields {
		if !profile.IsToken(field.name) {
			return nil, usageError(fmt.Errorf("--header: invalid name %q: use NAME=VALUE", field.name))
		}
		header.Set(field.name, field.value)
	}
	if len(header) > 0 {
		target.Resolve = func() (http.Header, error) { return header, nil }
	}
	if target.Protocol = s.protocol; s.protocol == "" {
		target.Protocol, target.Lookalike = p.Subprotocol, p.Lookalike
	}
	return target, nil
}
