//go:build linux

package upgradeproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/failoverproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
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
// drawn at random. The error has everything that was found.
func RunOutages(ctx context.Context, o OutageOptions) error {
	r := &outages{o: o, run: run{o: Options{Out: o.Out, Directory: o.Directory}, began: time.Now()}, dice: rand.New(rand.NewPCG(o.Seed, 0))}
	defer r.clear()
	if err := r.stage(ctx); err != nil {
		return err
	}
	return r.play(ctx)
}

// outages is one call of RunOutages. One goroutine owns it.
type outages struct {
	run
	o        OutageOptions
	dice     *rand.Rand
	database *pgtest.Server
	pair     []*pairProxy
	key      string // that clients send
}

// pairProxy is one of the two proxies, through several processes one after the other.
type pairProxy struct {
	name, directory, listen string
	serving                 int   // process ID
	old                     []int // process IDs of those that were replaced
}

func (p *pairProxy) socket() string  { return filepath.Join(p.directory, "admin.sock") }
func (p *pairProxy) logFile() string { return filepath.Join(p.directory, "log") }

const outageDatabase = "outages"

// stage starts servers, the database and the proxies.
func (r *outages) stage(ctx context.Context) (err error) {
	for i := range r.o.Servers {
		server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Latency: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: r.o.Seed + uint64(i)})
		if err != nil {
			return err
		}
		r.servers = append(r.servers, server)
	}
	r.counter = startCounter(r.servers)
	if r.database, err = pgtest.New(); err != nil {
		return err
	}
	if err := r.startDatabase(ctx); err != nil {
		return err
	}
	if err := pgtest.Execute(ctx, r.database.DSN("postgres"), "CREATE DATABASE "+outageDatabase); err != nil {
		return err
	}
	if err := r.settings(ctx); err != nil {
		return err
	}
	certificate, private, err := proxyprocess.WriteCertificate(r.o.Directory)
	if err != nil {
		return err
	}
	for _, name := range []string{"proxy-a", "proxy-b"} {
		if err := r.startPair(ctx, name, certificate, private); err != nil {
			return err
		}
	}
	return nil
}

func (r *outages) startDatabase(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, pgtest.StartTimeout)
	defer cancel()
	return r.database.Start(starting)
}

func (r *outages) databaseURL() string {
	return r.database.URL(pgtest.User, pgtest.Password, outageDatabase)
}

// settings makes the schema, the service with its servers, and a key.
func (r *outages) settings(ctx context.Context) error {
	commands := [][]string{
		{"migrate"},
		{"service", "add", "stt", "--path", "/", "--profile", "vosk", "--failover", "replay", "--auth", "keys", "--queue", "1000", "--queue-timeout", "30s"},
		{"key", "add", "phone"},
	}
	for i, server := range r.servers {
		commands = append(commands, []string{"backend", "add", fmt.Sprintf("server-%d", i+1), server.URL(), "--service", "stt", "--connections", strconv.Itoa(r.o.Cap)})
	}
	for _, arguments := range commands {
		out, err := r.operate(ctx, append(arguments, "--database", r.databaseURL())...)
		if err != nil {
			return err
		}
		if arguments[0] == "key" {
			r.key = keyShown.FindString(out)
		}
	}
	if r.key == "" {
		return errors.New("`wsbouncer key add` shows no key")
	}
	return nil
}

var keyShown = regexp.MustCompile(`wsb_[A-Za-z0-9_-]+`)

// operate runs a command of the program.
func (r *outages) operate(ctx context.Context, arguments ...string) (out string, err error) {
	text, err := exec.CommandContext(ctx, r.o.Binary, arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("wsbouncer %s: %w\n%s", strings.Join(arguments, " "), err, text)
	}
	return string(text), err
}

// startPair starts one of the two proxies.
func (r *outages) startPair(ctx context.Context, name, certificate, private string) error {
	p := &pairProxy{name: name, directory: filepath.Join(r.o.Directory, name)}
	if err := os.MkdirAll(p.directory, 0o700); err != nil {
		return err
	}
	r.pair = append(r.pair, p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.listen = l.Addr().String()
	_ = l.Close()
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(r.o.Binary, "serve", "--proxy-name", name, "--listen", "127.0.0.1:0", "--tls-listen", p.listen, "--tls-cert", certificate, "--tls-key", private,
		"--admin", "127.0.0.1:0", "--admin-socket", p.socket(), "--state-directory", filepath.Join(p.directory, "state"), "--database", r.databaseURL())
	command.Stdout, command.Stderr = log, log
	proxyprocess.Separate(command)
	if err := command.Start(); err != nil {
		return err
	}
	p.serving = command.Process.Pid
	_ = command.Process.Release()
	admin := proxyprocess.NewAdmin(p.socket())
	for deadline := time.Now().Add(startTimeout); ; {
		if _, err = admin.Get(ctx, "/readyz"); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v; its log is %s: %w", name, startTimeout, p.logFile(), err)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// play holds sessions while the scenes are played.
func (r *outages) play(ctx context.Context) error {
	finish := make(chan struct{})
	var urls []string
	for _, p := range r.pair {
		urls = append(urls, "wss://"+p.listen)
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
	err := sleep(ctx, 5*time.Second)
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
	lent := 0
	for _, p := range r.pair {
		text, _ := os.ReadFile(p.logFile())
		lent += strings.Count(string(text), "places borrowed from the process beside this one")
	}
	fmt.Fprintf(r.o.Out, "loans between processes that follow each other: %d\n", lent)
	for i, most := range r.counter.most() {
		fmt.Fprintf(r.o.Out, "server %d: at most %d connections, cap %d\n", i+1, most, r.o.Cap)
		if most > r.o.Cap {
			r.find("server %d had %d connections; its cap is %d", i+1, most, r.o.Cap)
		}
	}
	return errors.Join(out.err, out.Err(), proxyprocess.Races(r.o.Directory), errors.Join(r.found...))
}

// scene plays one scene, and returns when all is well again.
func (r *outages) scene(ctx context.Context, n int) error {
	// All times are drawn before anything happens, so that a seed draws the same ones again.
	p := r.pair[r.dice.IntN(len(r.pair))]
	victim := r.servers[r.dice.IntN(len(r.servers))]
	stops := r.between(0, 6*time.Second)                           // after the upgrade
	away := r.between(time.Second, 8*time.Second)                  // the database
	dies := max(0, stops+r.between(-2*time.Second, 2*time.Second)) // the server
	back := dies + r.between(500*time.Millisecond, 4*time.Second)  // the server
	settle := r.o.Settle + r.between(0, 2*time.Second)             // until the next scene
	crashes := r.dice.IntN(2) == 0                                 // the database
	r.say("scene %d: %s is upgraded; the database stops after %.1f s for %.1f s (crash: %t); %s is killed after %.1f s and back after %.1f s",
		n, p.name, stops.Seconds(), away.Seconds(), crashes, victim.URL(), dies.Seconds(), back.Seconds())
	if err := r.replace(ctx, p); err != nil {
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
		r.at(ctx, begin.Add(stops+away), func() error { return r.startDatabase(ctx) }),
	)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	r.reapOld(p)
	return sleep(ctx, settle)
}

// between draws a time.
func (r *outages) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.dice.Int64N(int64(most-least)+1))
}

// at does something at a time.
func (r *outages) at(ctx context.Context, when time.Time, do func() error) error {
	if err := sleep(ctx, time.Until(when)); err != nil {
		return err
	}
	return do()
}

// replace upgrades a proxy to the same program.
func (r *outages) replace(ctx context.Context, p *pairProxy) error {
	out, err := r.operate(ctx, "upgrade", "--admin", "unix:"+p.socket(), "--why", "proof")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	match := upgradedLine.FindStringSubmatch(lines[len(lines)-1])
	if match == nil {
		return fmt.Errorf("the upgrade of %s does not say which process serves:\n%s", p.name, out)
	}
	p.old = append(p.old, p.serving)
	p.serving, _ = strconv.Atoi(match[1])
	return nil
}

// reapOld takes in that processes that were replaced have ended.
func (r *outages) reapOld(p *pairProxy) {
	left := p.old[:0]
	for _, pid := range p.old {
		var status unix.WaitStatus
		if ended, _ := unix.Wait4(pid, &status, unix.WNOHANG, nil); ended != pid {
			left = append(left, pid)
		} else if !status.Exited() || status.ExitStatus() != 0 {
			r.find("process %d of %s ended with status %d (signal %v); its log is %s", pid, p.name, status.ExitStatus(), status.Signal(), p.logFile())
		}
	}
	p.old = left
}

// clear ends what is left.
func (r *outages) clear() {
	for _, p := range r.pair {
		for _, pid := range append(p.old, p.serving) {
			if pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
				_, _ = unix.Wait4(pid, nil, 0, nil)
			}
		}
	}
	if r.database != nil {
		r.database.Remove()
	}
	if r.counter != nil {
		r.counter.end()
	}
	for _, server := range r.servers {
		server.Close()
	}
}
