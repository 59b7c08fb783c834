package chaos

import (
	"crypto/tls"
	"net"
	"os"
	"regexp"
	"time"
)

// listeningTLS finds the address of the listener with TLS in a proxy's log.
var listeningTLS = regexp.MustCompile(`msg=listening address=(\S+) tls=true`)

// tlsAddress returns the address of the proxy's listener with TLS.
func (p *proxy) tlsAddress() (address string, found bool) {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return "", false
	}
	match := listeningTLS.FindSubmatch(text)
	if match == nil {
		return "", false
	}
	return string(match[1]), true
}

// secured returns the client's side of a TLS connection, without resumption.
func (a *attack) secured() *tls.Conn {
	return tls.Client(a.conn, &tls.Config{InsecureSkipVerify: true}) // it is the proxy's own certificate
}

// slowTLS sends the beginning of its first message, one byte each second.
func slowTLS(a *attack) error {
	hello := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
	for i := range 1000 {
		if err := a.write([]byte{hello[min(i, len(hello)-1)]}); err != nil {
			return err
		}
		if err := wait(a.ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// handshakesOnly carries out a whole TLS handshake, and leaves.
func handshakesOnly(a *attack) error { return a.secured().Handshake() }

// silentAfterTLS carries out a whole TLS handshake, and says nothing more.
func silentAfterTLS(a *attack) error {
	if err := a.secured().Handshake(); err != nil {
		return err
	}
	return saysNothing(a)
}

// halfTLS has the proxy compute its part of a TLS handshake, and does not go on.
func halfTLS(a *attack) error {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _ = tls.Client(far, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	hello := make([]byte, 8<<10)
	n, err := near.Read(hello)
	if err != nil {
		return err
	}
	if err := a.write(hello[:n]); err != nil {
		return err
	}
	return saysNothing(a)
}

// speaksHTTP sends its request without TLS.
func speaksHTTP(a *attack) error {
	if err := a.write([]byte(a.request(""))); err != nil {
		return err
	}
	return saysNothing(a)
}
