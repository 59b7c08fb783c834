//go:build linux

package backends

import (
	"crypto/tls"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
)

// StartSecureEcho starts an echo server with TLS in this process, and returns its address and the file with its certificate, which it makes in a
// folder. stop returns when the server's goroutines have ended.
func StartSecureEcho(folder string) (address, certificate string, stop func(), err error) {
	c, err := stage.NewCertificate(folder, stage.Lifetime)
	if err != nil {
		return "", "", nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.File(), c.KeyFile())
	if err != nil {
		return "", "", nil, err
	}
	server, err := sim.Start(sim.Options{Protocol: sim.Echo, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}})
	if err != nil {
		return "", "", nil, err
	}
	return server.Addr().String(), c.File(), server.Close, nil
}
