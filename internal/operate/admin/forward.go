package admin

import (
	"net/http"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// serveForward turns the request's connection into that of a client, or says where the client is to come. An error before that is returned. It is not in
// the audit log: it is a client that comes, not an operator who acts.
func (s *Source) serveForward(w http.ResponseWriter, r *http.Request) error {
	var client api.ForwardedClient
	if err := readBody(w, r, &client); err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), api.ForwardProtocol) {
		return BadRequest("a client is forwarded with the header Upgrade: %s, by another proxy of the fleet", api.ForwardProtocol)
	}
	url, proof, take, err := s.Forward(r, &client)
	if err != nil {
		return BadRequest("%v", err)
	}
	if url != "" {
		w.Header().Set("Location", url)
		w.Header().Set(api.ProofHeader, proof)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	}
	nc, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + api.ForwardProtocol + "\r\n" +
		api.ProofHeader + ": " + proof + "\r\n\r\n"
	if buffered.Reader.Buffered() > 0 { // it may say nothing before it has the answer
		_ = nc.Close()
	} else if _, err := nc.Write([]byte(answer)); err != nil {
		_ = nc.Close()
	} else {
		take(nc)
	}
	return nil
}
