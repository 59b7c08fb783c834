package admission

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A browser lets any page open a WebSocket to any server, and adds the cookies and the client certificate that it has for that server: the page acts
// as its visitor (RFC 6455, section 10.2). So where a service takes either and names no origins, only its own origin's pages may use them.

// anyOrigin, as the only one of Service.Origins, lets the pages of all origins in, whatever credentials their browsers add.
const anyOrigin = "*"

// refuseOrigin returns why the request of a browser is refused; nil if it is not, or if it comes from no browser.
func refuseOrigin(s *route.Service, req *http.Request, hasCertificate bool) *handshake.Refusal {
	from := req.Header.Get("Origin")
	switch {
	case from == "":
		return nil
	case len(s.Origins) > 0:
		if !slices.Contains(s.Origins, from) && !slices.Contains(s.Origins, anyOrigin) {
			return &handshake.Refusal{Status: http.StatusForbidden, Reason: "this origin is not allowed"}
		}
		return nil
	case isOwnOrigin(from, req.Host):
		return nil
	case s.Cookies && len(req.Header["Cookie"]) > 0:
		return &handshake.Refusal{Status: http.StatusForbidden, Reason: "pages of other origins may not use their visitors' cookies: set allow-origin"}
	case hasCertificate && (s.Certificates || s.Auth == nil): // without authentication, the listener asks for it
		return &handshake.Refusal{Status: http.StatusForbidden, Reason: "pages of other origins may not use their visitors' certificates: set allow-origin"}
	}
	return nil
}

// isOwnOrigin reports whether a page comes from the host that it connects to. Both may leave out the port that is usual for the scheme, and a load
// balancer may speak TLS for the proxy, so that the proxy does not know the scheme.
func isOwnOrigin(origin, host string) bool {
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	}
	usual := map[string]string{"https": "443", "http": "80"}[page.Scheme]
	pagePort := page.Port()
	if pagePort == usual {
		pagePort = ""
	}
	if port == usual {
		port = ""
	}
	return usual != "" && strings.EqualFold(page.Hostname(), strings.Trim(name, "[]")) && pagePort == port
}
