//go:build linux

package scenes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	lab "github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// stage is a proxy with its servers and clients, for one scene. The goroutine that plays the scene owns it, except for the fields that are atomic.
type stage struct {
	options   Options
	scene     scene
	directory string
	journal   *kit.Journal

	servers     []*server
	cap         int              // of each server
	service     string           // further settings of the service, each after a comma
	more        string           // further entries of the configuration
	tenants     []string         // that get a key each
	keys        []string         // of the tenants
	stranger    *sim.Server      // that speaks another protocol; nil for none
	database    *pgtest.Server   // that the proxy uses; nil for a file
	source      string           // name of the database
	through     string           // the same, over way
	way         *kit.Forwarder   // from the proxy to the database; nil for a file
	state       string           // state directory; empty for the usual one
	arguments   []string         // further ones of the proxy
	certificate *lab.Certificate // for clients; nil for none

	proxy   *kit.Proxy
	crowds  []*crowd
	closers []func() // in reverse order
}

// server is a simulated server, and the network in front of it.
type server struct {
	*sim.Server
	name string
	way  *kit.Forwarder
	deny atomic.Bool // refuses keys
}

// latency is how long servers take for an answer.
const latency = 100 * time.Millisecond

// addServers starts servers of a protocol.
func (t *stage) addServers(n int, protocol string) error {
	for range n {
		s := &server{name: fmt.Sprintf("gpu-%d", len(t.servers)+1)}
		var err error
		s.Server, err = sim.Start(sim.Options{
			Protocol: protocol, Latency: latency,
			Admit: func(*http.Request) int {
				if s.deny.Load() {
					return http.StatusUnauthorized
				}
				return 0
			},
		})
		if err != nil {
			return err
		}
		t.closers = append(t.closers, s.Server.Close)
		if s.way, err = kit.NewForwarder(s.Addr().String()); err != nil {
			return err
		}
		t.closers = append(t.closers, s.way.Close)
		t.servers = append(t.servers, s)
	}
	return nil
}

// configuration returns the YAML of the service and its backends.
func (t *stage) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "services:\n  stt: {path: /, profile: vosk%s}\n%sbackends:\n", t.service, t.more)
	for _, s := range t.servers {
		fmt.Fprintf(&b, "  %s: {service: stt, url: 'ws://%s', connections: %d}\n", s.name, s.way.Address(), t.cap)
	}
	return b.String()
}

// serve fills the database with the configuration, and starts the proxy.
func (t *stage) serve(ctx context.Context) error {
	if t.database == nil {
		t.source = filepath.Join(t.directory, "configuration.db")
	}
	file := filepath.Join(t.directory, "configuration.yaml")
	if err := os.WriteFile(file, []byte(t.configuration()), 0o600); err != nil {
		return err
	}
	if _, err := kit.Operate(ctx, t.options.Binary, "config", "import", file, "--database", t.source); err != nil {
		return err
	}
	for _, name := range t.tenants {
		key, _, err := kit.AddKey(ctx, t.options.Binary, name, "--tenant", name, "--database", t.source)
		if err != nil {
			return err
		}
		t.keys = append(t.keys, key)
	}
	var err error
	if t.proxy, err = kit.NewProxy(t.options.Binary, "proxy", t.directory); err != nil {
		return err
	}
	t.proxy.State = cmp.Or(t.state, t.proxy.State)
	t.closers = append(t.closers, t.proxy.KillAll)
	if t.options.Hold > 0 {
		admin, err := freeport.Address()
		if err != nil {
			return err
		}
		t.arguments = append(t.arguments, "--admin", admin)
		t.journal.Event("%s: the dashboard is http://%s/", t.scene.name, admin)
	}
	return t.proxy.Start(ctx, append([]string{"--database", cmp.Or(t.through, t.source)}, t.arguments...)...)
}

// operate runs a command of the program at the proxy.
func (t *stage) operate(ctx context.Context, arguments ...string) error {
	_, err := kit.Operate(ctx, t.options.Binary, append(arguments, "--admin", "unix:"+t.proxy.Socket())...)
	return err
}

// problems returns what the proxy names now.
func (t *stage) problems(ctx context.Context) ([]api.Problem, error) {
	var list api.ProblemList
	if err := t.proxy.Get(ctx, api.ProblemsPath, &list); err != nil {
		return nil, err
	}
	return list.Problems, nil
}

// sees waits until the proxy takes a server for healthy, or not, for a second: it looks at it that often.
func (t *stage) sees(ctx context.Context, s *server, healthy bool) error {
	err := t.proxy.Until(ctx, fmt.Sprintf("%s is healthy: %t", s.name, healthy), func() (bool, error) {
		stats, err := t.proxy.Stats(ctx)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(stats.Backends, func(b api.Backend) bool { return b.Name == s.name })
		return i >= 0 && (stats.Backends[i].Health.Condition().Word == api.Healthy) == healthy, nil
	})
	if err != nil {
		return err
	}
	return kit.Wait(ctx, 1500*time.Millisecond)
}

// sessionSeconds is how long a session lasts: short, so that enough of them begin while there is trouble.
const sessionSeconds = 4

// speak adds clients until quiet or close. The query is added to their URL.
func (t *stage) speak(clients int, query string) error {
	return t.come(clients, query, func() time.Duration { return rand.N(2 * time.Second) })
}

// spikes has clients come all together, every 15 seconds.
func (t *stage) spikes(clients int) error {
	begin := time.Now()
	return t.come(clients, "", func() time.Duration { return spikeInterval - time.Since(begin)%spikeInterval })
}

const spikeInterval = 15 * time.Second

// come adds clients who hold one session after the other, with pauses between them.
func (t *stage) come(clients int, query string, pause func() time.Duration) error {
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		return err
	}
	pcm := audio.PCM[:min(len(audio.PCM), 2*audio.SampleRate*sessionSeconds)]
	c := newCrowd()
	t.crowds = append(t.crowds, c)
	for range clients {
		c.Go(func(ctx context.Context) {
			for kit.Wait(ctx, pause()) == nil {
				session := speech.Session{
					URL: "ws://" + t.proxy.Listen + "/" + query, SampleRate: audio.SampleRate, PCM: pcm, Chunk: 100 * time.Millisecond, Speed: 1,
					Heard: func(speech.Answer, time.Time) { c.heard() },
				}
				if err := session.Run(ctx); ctx.Err() == nil {
					c.ended(err) // it fails where there is trouble
				}
			}
		})
	}
	return nil
}

// quiet ends the clients that were added last.
func (t *stage) quiet() {
	last := t.crowds[len(t.crowds)-1]
	t.crowds = t.crowds[:len(t.crowds)-1]
	last.End()
}

// certify replaces the certificate for clients, in the proxy's directory.
func (t *stage) certify(left time.Duration) (err error) {
	t.certificate, err = lab.NewCertificate(t.directory, left)
	return err
}

// close ends everything.
func (t *stage) close() {
	for len(t.crowds) > 0 {
		t.quiet()
	}
	for i := len(t.closers) - 1; i >= 0; i-- {
		t.closers[i]()
	}
}
