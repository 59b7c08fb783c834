package kit

import (
	"context"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Admin asks the admin API of a proxy, over a connection of its own each time. Its methods may be called from any goroutine.
type Admin struct {
	Token   string // sent with each request, if there is one; set before the first
	address string
}

// NewAdmin returns a client of the admin API at a URL, or at the path of a socket.
func NewAdmin(address string) *Admin {
	if !strings.Contains(address, "://") {
		address = "unix:" + address
	}
	return &Admin{address: address}
}

// Get asks for a path, and reads the JSON answer into to, unless that is nil. A status other than 200 is an error.
func (a *Admin) Get(ctx context.Context, path string, to any) error {
	c, err := client.New(a.address, a.Token)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Do(ctx, client.Request{Path: path, Timeout: StartTimeout}, to)
}

// Stats returns the proxy's statistics.
func (a *Admin) Stats(ctx context.Context) (*api.Stats, error) {
	s := new(api.Stats)
	return s, a.Get(ctx, api.StatsPath, s)
}
