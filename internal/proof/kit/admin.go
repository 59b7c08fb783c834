package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// adminTimeout is how long the admin API may take to answer.
const adminTimeout = 5 * time.Second

// Admin asks the admin API of a proxy. Its methods may be called from any goroutine.
type Admin struct {
	Token  string // sent with each request, if there is one; set before the first
	url    string
	client http.Client
}

// NewAdmin returns a client of the admin API at a URL, or at the path of a socket.
func NewAdmin(address string) *Admin {
	transport := &http.Transport{DisableKeepAlives: true}
	a := &Admin{url: address, client: http.Client{Transport: transport}}
	if !strings.HasPrefix(address, "http://") {
		a.url = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", address)
		}
	}
	return a
}

// Get asks for a path and returns the body of the response. A status other than 200 is an error.
func (a *Admin) Get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return nil, err
	}
	if a.Token != "" {
		request.Header.Set("Authorization", "Bearer "+a.Token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the admin API answered %s with %s: %.200s", path, response.Status, body)
	}
	return body, err
}

// Stats returns the proxy's statistics.
func (a *Admin) Stats(ctx context.Context) (*api.Stats, error) {
	body, err := a.Get(ctx, "/api/v1/stats")
	if err != nil {
		return nil, err
	}
	s := new(api.Stats)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("reading the statistics of the admin API: %w", err)
	}
	return s, nil
}
