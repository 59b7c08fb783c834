package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// AllowedAddresses says in words what the address of an admin API may be.
const AllowedAddresses = "host:port, http://host:port, https://host:port, or unix:/path/of/socket"

// dialTimeout is for connecting to the proxy.
const dialTimeout = 5 * time.Second

// target is the address of an admin API.
type target struct {
	base   string // URL without a path
	socket string // path of a unix socket; empty for TCP
}

func parseAddress(address string) (t target, err error) {
	wrong := func(why string) (target, error) {
		return target{}, fmt.Errorf("invalid admin API address %q (%s): use %s", address, why, AllowedAddresses)
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if after, ok := strings.CutPrefix(path, "//"); ok {
			path = after
		}
		if path == "" {
			return wrong("the path of the socket is missing")
		}
		return target{base: "http://localhost", socket: path}, nil
	}
	text := address
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return wrong("the scheme is " + u.Scheme)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return wrong("it has more than a host and a port; a socket's path needs unix: before it")
	case u.Port() == "":
		return wrong("the port is missing")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return wrong("the port must be a number from 1 to 65535")
	}
	if u.Hostname() == "" {
		u.Host = net.JoinHostPort("localhost", u.Port())
	}
	return target{base: u.Scheme + "://" + u.Host}, nil
}

// transport returns the HTTP transport for the target. It ignores HTTP_PROXY and similar variables: wsbouncer is near, and the
// token must not go elsewhere. ownUser is [Options.OwnUser].
func (t *target) transport(ownUser bool) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialTimeout}
	if t.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			nc, err := dialer.DialContext(ctx, "unix", t.socket)
			if err != nil || !ownUser {
				return nc, err
			}
			if uid, ok := machine.PeerUser(nc); !ok || !machine.IsOwnUser(uid) {
				_ = nc.Close()
				return nil, errors.New("the process that listens there is not known to run as this process's user or as root")
			}
			return nc, nil
		}
	}
	return transport
}

// reason returns why a request got no answer, without the URL and the address, which the caller knows.
func reason(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok && operation.Op == "dial" {
		err = operation.Err
	}
	return err
}
