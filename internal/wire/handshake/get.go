package handshake

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// ResolveURL returns the URL that a text stands for at this server: parts that the text omits are the target's own. /PATH is a path of the
// server, and http://:PORT/PATH or :PORT/PATH one at another port of its host.
func (t *Target) ResolveURL(text string) (*url.URL, error) {
	if strings.HasPrefix(text, ":") {
		text = t.HTTP() + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Host == "" && u.Scheme == "":
		u.Scheme, u.Host = t.HTTP(), t.Address()
	case u.Hostname() == "":
		host, _, _ := net.SplitHostPort(t.Address())
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u, nil
}

// Get requests a URL with GET over a new connection. The target's own host is dialed, and its certificate checked, as the target itself is. With
// keyed, the target's own port also gets the fields of its upgrade request, in which there may be a key. The caller closes the body. Redirects
// are not followed.
func (t *Target) Get(ctx context.Context, u *url.URL, keyed bool) (*http.Response, error) {
	config, err := t.tlsFor(u)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	var sent secret.Sent
	if keyed && u.Host == t.Address() && u.Scheme == t.HTTP() {
		text, err := t.header(&sent)
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				name = textproto.CanonicalMIMEHeaderKey(name)
				request.Header[name] = append(request.Header[name], value)
			}
		}
	}
	request.Header.Set("User-Agent", "wsbouncer")
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: config,
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return t.From.Dial(ctx, net.Dialer{}, t.Endpoint(address))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	return response, sent.Error(secret.Error(err))
}

// tlsFor returns the TLS configuration for a URL: the target's own for its own host, and otherwise nil for the default, since another host has
// other certificates.
func (t *Target) tlsFor(u *url.URL) (*tls.Config, error) {
	host, _, _ := net.SplitHostPort(t.Address())
	if u.Scheme != "https" || u.Hostname() != host {
		return nil, nil
	}
	config, err := t.TLS()
	if config == nil || err != nil {
		return nil, err
	}
	config = config.Clone()
	config.ClientSessionCache = nil // the whole handshake is part of a probe, and another port may be another server
	return config, nil
}
