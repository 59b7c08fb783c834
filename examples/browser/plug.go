package main

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// plug is between the page and the proxy. When it is pulled, the page's connections end without a close frame, and new ones are refused,
// as when a device loses its network. A page cannot do that to its own connections: the browser sends a close frame.
type plug struct {
	relay httputil.ReverseProxy // static

	mu   sync.Mutex
	in   context.Context    // guarded by mu: until the plug is pulled
	pull context.CancelFunc // guarded by mu
}

// newPlug returns a plug, which is in, to the proxy at a URL with the scheme ws or wss.
func newPlug(proxy *url.URL) *plug {
	target := *proxy
	target.Scheme = map[string]string{"ws": "http", "wss": "https"}[proxy.Scheme]
	p := &plug{relay: httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to := target
		r.Out.URL, r.Out.Host = &to, ""
	}}}
	p.in, p.pull = context.WithCancel(context.Background())
	return p
}

// set puts the plug in or pulls it.
func (p *plug) set(in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !in:
		p.pull()
	case p.in.Err() != nil:
		p.in, p.pull = context.WithCancel(context.Background())
	}
}

// ServeHTTP relays a connection to the proxy until the plug is pulled.
func (p *plug) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	in := p.in
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(in, cancel)()
	if in.Err() != nil {
		http.Error(w, "the plug is pulled", http.StatusBadGateway)
		return
	}
	p.relay.ServeHTTP(w, r.WithContext(ctx))
}
