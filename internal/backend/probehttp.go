package backend

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
)

// probeTLS returns the configuration of TLS for a probe: the backend's own if that is the host which is asked, and otherwise nil,
// for the usual one, since another host has another name and is no business of the backend's certificates.
func probeTLS(u *url.URL, target *handshake.Target) (*tls.Config, error) {
	host, _, _ := net.SplitHostPort(target.Address())
	if u.Scheme != "https" || u.Hostname() != host {
		return nil, nil
	}
	config, err := target.TLS()
	if config == nil || err != nil {
		return nil, err
	}
	config = config.Clone()
	config.ClientSessionCache = nil // the whole handshake is part of what is asked, and another port may be another server's
	return config, nil
}

// probeHTTP asks for the URL, over a new connection, since that is part of what is asked. A config of nil is the usual one.
func probeHTTP(ctx context.Context, u *url.URL, config *tls.Config) error {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "wsbouncer")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", u.Redacted(), response.Status)
	}
	return nil
}
