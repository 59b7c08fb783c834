//go:build linux

package upgradeproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/failoverproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// OutageOptions say what [RunOutages] proves.
type OutageOptions struct {
	Binary    string
	Scenes    int
	Seed      uint64 // of the times in the scenes, and of what sessions say
	Sessions  int    // at a time; the servers but one must have places for them
	Servers   int
	Cap       int           // connections of each server
	Settle    time.Duration // the shortest time between two scenes
	Directory string        // for logs and state; it must exist
	Out       io.Writer     // gets the report
}

// RunOutages proves that no session is lost when everything happens at once: to two proxies that share a PostgreSQL database, with TLS, keys and
// failover by replay. In each scene one of them is upgraded, and while the old process drains, the database stops and a server is killed, at times
// drawn at random. The error says what was found first, and the report all of it.
func RunOutages(ctx context.Context, o OutageOptions) error {
	r := &outages{o: o, journal: kit.NewJournal(o.Out), dice: rand.New(rand.NewPCG(o.Seed, 0))}
	defer r.clear()
	if err := r.stage(ctx); err != nil {
		return err
	}
	return r.play(ctx)
}

// outages is one call of RunOutages. One goroutine owns it.
type outages struct {
	o        OutageOptions
	journal  *kit.Journal
	dice     *rand.Rand
	servers  []*sim.Server
	counter  *counter
	database *pgtest.Server
	pair     []*kit.Proxy
	listen   []string // addresses of the proxies, with TLS
	key      string   // that clients send
}

const outageDatabase = "outages"

// stage starts servers, the database and the proxies.
func (r *outages) stage(ctx context.Context) (err error) {
	var kernel *kit.Kernel
	r.servers, kernel, err = kit.StartServers(r.o.Servers, func(i int) sim.Options {
		return sim.Options{Protocol: sim.Vosk, Latency: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: r.o.Seed + uint64(i)}
	})
	if err != nil {
		return err
	}
	r.counter = startCounter(kernel, len(r.servers), r.journal)
	if r.database, err = pgtest.Started(ctx, outageDatabase); err != nil {
		return err
	}
	if err := r.settings(ctx); err != nil {
		return err
	}
	certificate, err := stage.NewCertificate(r.o.Directory, stage.Lifetime)
	if err != nil {
		return err
	}
	for _, name := range []string{"proxy-a", "proxy-b"} {
		p, err := kit.NewProxy(r.o.Binary, name, r.o.Directory)
		if err != nil {
			return err
		}
		listen, err := freeport.Address()
		if err != nil {
			return err
		}
		r.pair, r.listen = append(r.pair, p), append(r.listen, listen)
		if err := p.Serve("--proxy-name", name, "--tls-listen", listen, "--tls-cert", certificate.File(), "--tls-key", certificate.KeyFile(),
			"--admin", "127.0.0.1:0", "--database", r.databaseURL()); err != nil {
			return err
		}
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *outages) databaseURL() string {
	return r.database.URL(pgtest.User, pgtest.Password, outageDatabase)
}

// settings makes the schema, the service with its servers, and a key.
func (r *outages) settings(ctx context.Context) (err error) {
	commands := [][]string{
		{"migrate"},
		{"service", "add", "stt", "--path", "/", "--profile", "vosk", "--failover", "replay", "--auth", "keys", "--queue", "1000", "--queue-timeout", "30s"},
	}
	for i, server := range r.servers {
		commands = append(commands, []string{"backend", "add", fmt.Sprintf("server-%d", i+1), server.URL(), "--service", "stt", "--connections", strconv.Itoa(r.o.Cap)})
	}
	if _, err = kit.OperateAll(ctx, r.o.Binary, r.databaseURL(), commands...); err == nil {
		r.key, _, err = kit.AddKey(ctx, r.o.Binary, "phone", "--database", r.databaseURL())
	}
	return err
}

// play holds sessions while the scenes are played.
func (r *outages) play(ctx context.Context) error {
	finish := make(chan struct{})
	var urls []string
	for _, address := range r.listen {
		urls = append(urls, "wss://"+address)
	}
	type outcome struct {
		failoverproof.Report
		err error
	}
	talked := make(chan outcome, 1)
	talking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		report, err := failoverproof.Run(talking, failoverproof.Options{
			Protocol: sim.Vosk, Sessions: r.o.Sessions, Seed: r.o.Seed, Patience: time.Minute, Log: r.o.Out,
			Outside: &failoverproof.Outside{
				URLs: urls, Header: []handshake.Field{{Name: "Authorization", Value: "Bearer " + r.key}},
				Authority: filepath.Join(r.o.Directory, "certificate.pem"), Finish: finish,
			},
		})
		talked <- outcome{report, err}
	}()
	err := kit.Wait(ctx, 5*time.Second)
	for n := 0; n < r.o.Scenes && err == nil; n++ {
		err = r.scene(ctx, n+1)
	}
	if err != nil {
		stop()
		<-talked
		return err
	}
	close(finish)
	out := <-talked
	fmt.Fprintf(r.o.Out, "\n%d scenes\n%s", r.o.Scenes, out.String())
	if err := errors.Join(out.err, out.Err()); err != nil {
		r.journal.Violation("", "sessions did not outlive what happened", nil, "%v", err)
	}
	lent := 0
	for _, p := range r.pair {
		ends(r.journal, p, endTimeout)
		lent += strings.Count(p.Log(), "places borrowed from the other process of this upgrade")
	}
	lines := append([]string{fmt.Sprintf("loans between processes that follow each other: %d", lent)}, r.counter.end(r.o.Cap, false)...)
	r.counter = nil
	return r.journal.Conclude(r.o.Out, r.o.Directory, lines)
}

// scene plays one scene, and returns when all is well again.
func (r *outages) scene(ctx context.Context, n int) error {
	// All times are drawn before anything happens, so that a seed draws the same ones again.
	p := r.pair[r.dice.IntN(len(r.pair))]
	victim := r.servers[r.dice.IntN(len(r.servers))]
	stops := kit.Between(r.dice, 0, 6*time.Second)                           // after the upgrade
	away := kit.Between(r.dice, time.Second, 8*time.Second)                  // the database
	dies := max(0, stops+kit.Between(r.dice, -2*time.Second, 2*time.Second)) // the server
	back := dies + kit.Between(r.dice, 500*time.Millisecond, 4*time.Second)  // the server
	settle := r.o.Settle + kit.Between(r.dice, 0, 2*time.Second)             // until the next scene
	crashes := r.dice.IntN(2) == 0                                           // the database
	r.journal.Event("scene %d: %s is upgraded; the database stops after %.1f s for %.1f s (crash: %t); %s is killed after %.1f s and back after %.1f s",
		n, p.Name, stops.Seconds(), away.Seconds(), crashes, victim.URL(), dies.Seconds(), back.Seconds())
	if _, err := p.Upgrade(ctx, p.Binary, nil); err != nil {
		return err
	}
	begin := time.Now()
	failed := make(chan error, 1)
	go func() { // what happens to the database and to the server happens at the same time
		failed <- errors.Join(r.at(ctx, begin.Add(dies), func() error { victim.Kill(); return nil }), r.at(ctx, begin.Add(back), victim.Revive))
	}()
	end := r.database.Stop
	if crashes {
		end = r.database.Kill
	}
	err := errors.Join(
		r.at(ctx, begin.Add(stops), func() error { _ = end(); return nil }), // how it ends does not matter
		r.at(ctx, begin.Add(stops+away), func() error { return r.database.Start(ctx) }),
	)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	r.reapOld()
	return kit.Wait(ctx, settle)
}

// at does something at a time.
func (r *outages) at(ctx context.Context, when time.Time, do func() error) error {
	if err := kit.Wait(ctx, time.Until(when)); err != nil {
		return err
	}
	return do()
}

// reapOld takes in that processes that were replaced have ended. Those that have not may still have sessions: see ends.
func (r *outages) reapOld() {
	for _, p := range r.pair {
		p.Replaced = slices.DeleteFunc(p.Replaced, func(old *kit.Process) bool {
			if old.Alive() {
				return false
			}
			replacedEnds(r.journal, p, old, endTimeout) // it has ended: this says how
			return true
		})
	}
}

// clear ends what is left.
func (r *outages) clear() {
	for _, p := range r.pair {
		p.KillAll()
	}
	if r.database != nil {
		r.database.Remove()
	}
	if r.counter != nil {
		r.counter.stop()
	}
	for _, server := range r.servers {
		server.Close()
	}
}
