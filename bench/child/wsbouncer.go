//go:build linux

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// startTimeout is how long a simulated server or a proxy may take to start.
const startTimeout = 15 * time.Second

// StartSimulator starts a simulated server of a wsbouncer binary at an address, and returns when it accepts connections. The
// caller stops it.
func StartSimulator(ctx context.Context, binary, address, protocol string, flags ...string) (*Process, error) {
	p, err := Start(append([]string{binary, "sim", "--listen", address, "--protocol", protocol}, flags...))
	if err != nil {
		return nil, err
	}
	if err := WaitFor(ctx, p, protocol+" server", startTimeout, Accepts(address)); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Proxy is a running wsbouncer.
type Proxy struct {
	*Process
	Listen, Admin string // addresses
}

// StartProxy starts wsbouncer on free addresses, and returns when it accepts clients. The caller stops it.
func StartProxy(ctx context.Context, binary string, flags ...string) (*Proxy, error) {
	addresses, err := FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Listen: addresses[0], Admin: addresses[1]}
	if p.Process, err = Start(append([]string{binary, "serve", "--listen", p.Listen, "--admin", p.Admin}, flags...)); err != nil {
		return nil, err
	}
	if err := WaitFor(ctx, p.Process, "the proxy", startTimeout, Accepts(p.Listen)); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stats asks the admin API for the statistics.
func (p *Proxy) Stats(ctx context.Context) (*api.Stats, error) {
	all := new(api.Stats)
	return all, Get(ctx, "http://"+p.Admin+"/api/v1/stats", all)
}

// errNotYet is what Await's condition returns until the statistics are as they should be.
var errNotYet = errors.New("the statistics are not as expected")

// Await waits until the statistics are as they should be.
func (p *Proxy) Await(ctx context.Context, what string, timeout time.Duration, are func(*api.Stats) bool) error {
	return WaitFor(ctx, p.Process, what, timeout, func(ctx context.Context) error {
		now, err := p.Stats(ctx)
		if err == nil && !are(now) {
			return errNotYet
		}
		return err
	})
}

// Get fetches a page, which must be answered with 200, and decodes its JSON unless into is nil.
func Get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true // an idle connection would count as memory of the server
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
