package peers

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file brings clients to the proxy that has their session. What a client says is for that proxy alone, and its address comes from the ledger.
// So the proxy that answers proves that it knows the token, too, or listens at a socket where the kernel says that it is of this process's user.

// Forward asks the proxy with a process about a client whose session it may have. It returns the URL to which the client is to go, or a connection
// to that proxy for what the client sends, which the caller closes. It takes no longer than the time for an answer.
func (p *Peers) Forward(ctx context.Context, process string, about *api.ForwardedClient) (url string, conn net.Conn, err error) {
	view := (*View)(p.options.Ledger.Status())
	i := slices.IndexFunc(view.Members, func(m fleet.Member) bool { return m.Process == process && m.ID != view.Self })
	if i < 0 {
		return "", nil, errors.New("no proxy of the fleet is known by this token")
	}
	other := &view.Members[i]
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, fmt.Errorf("no answer within %v", p.options.Timeout))
	defer cancel()
	ask := client.Request{Method: http.MethodPost, Path: api.ForwardPath, Body: about, Upgrade: api.ForwardProtocol, Timeout: p.options.Timeout}
	var answer *http.Response
	c, err := p.send(ctx, view, other, ask, func(c *client.Client, r client.Request) (err error) {
		answer, conn, err = c.Upgrade(ctx, r)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	url = answer.Header.Get("Location")
	if !c.beside && !c.prover.proves(answer, url) || conn == nil && url == "" {
		if conn != nil {
			_ = conn.Close()
		}
		return "", nil, fmt.Errorf("what answers at %s does not prove that it is a proxy of the fleet", c.address)
	}
	return url, conn, nil
}

// proves reports whether the answer to a request proves that the other proxy knows the token.
func (p *prover) proves(answer *http.Response, url string) bool {
	said, _ := proofOf(answer.Request)
	mac, err := encoding.DecodeString(answer.Header.Get(api.ProofHeader))
	return said != nil && err == nil && hmac.Equal(mac, said.reply(url, p.to, p.from).mac(p.token))
}

// Reply returns the proof, for the proxy that sent a request, that this one knows the token by which that one was admitted. It answers with a URL, or
// an empty text.
func (p *Peers) Reply(r *http.Request, token, url string) string {
	said, _ := proofOf(r)
	if said == nil {
		return ""
	}
	self := p.options.Ledger.Status().Self
	return encoding.EncodeToString(said.reply(url, string(self), r.Header.Get(api.PeerHeader)).mac(token))
}

// reply returns what the proof of the answer to a request must state.
func (p *proof) reply(url, from, to string) *statement {
	return &statement{nonce: p.nonce, count: p.count, method: "answer", target: url, from: from, to: to, address: p.address}
}
