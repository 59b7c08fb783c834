package remote

import (
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// proxied is a client with the server and the store behind it, which end together.
type proxied struct {
	*Client
	store  config.Store
	server *httptest.Server
}

func (p *proxied) Close() error {
	err := p.Client.Close()
	_ = p.store.Close() // first, so that requests no longer wait for a change
	p.server.Close()
	return err
}

// dial returns a client for the admin API at an address.
func dial(address, token string, o config.Options) (*Client, error) {
	connection, err := client.New(address, token)
	if err != nil {
		return nil, err
	}
	return New(connection, o), nil
}

// serve serves a database on a unix socket, or if there is none on a loopback address, and returns a client of it.
func serve(t testing.TB, database, socket string, options config.Options) *proxied {
	t.Helper()
	store, err := sqlite.Open(database, options)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxied{store: store, server: httptest.NewUnstartedServer(Handler(store, HandlerOptions{Profiles: options.Profiles}))}
	address := p.server.Listener.Addr().String()
	if socket != "" {
		_ = p.server.Listener.Close()
		if p.server.Listener, err = net.Listen("unix", socket); err != nil {
			t.Fatal(err)
		}
		address = "unix:" + socket
	}
	p.server.Start()
	if p.Client, err = dial(address, "", options); err != nil {
		t.Fatal(err)
	}
	return p
}

// A socket's path may have 107 bytes only, which those of t.TempDir may exceed.
func TestContractOnSocket(t *testing.T) {
	configtest.Run(t, func(t *testing.T) configtest.Place {
		directory, err := os.MkdirTemp("", "remote")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(directory) })
		n := 0
		return configtest.Place{Open: func(t testing.TB, options config.Options) config.Store {
			n++
			return serve(t, filepath.Join(directory, "config.db"), filepath.Join(directory, string(rune('a'+n))), options)
		}}
	})
}

// Over TCP. One proxy with several clients is one place as well, and they see each other's changes at once.
func TestContractOfClients(t *testing.T) {
	configtest.Run(t, func(t *testing.T) configtest.Place {
		var first *proxied
		return configtest.Place{Open: func(t testing.TB, options config.Options) config.Store {
			if first == nil || first.closed.Load() || options.Profiles != nil {
				first = serve(t, filepath.Join(t.TempDir(), "config.db"), "", options)
				return first
			}
			other, err := dial(first.API().Address(), "", options)
			if err != nil {
				t.Fatal(err)
			}
			return other
		}}
	})
}

// Benchmarks load a large configuration through the API.
func BenchmarkLoad(b *testing.B) {
	s := serve(b, filepath.Join(b.TempDir(), "config.db"), "", config.Options{})
	defer func() {
		if err := s.Close(); err != nil && !errors.Is(err, config.ErrClosed) {
			b.Error(err)
		}
	}()
	configtest.Bench(b, s)
}
