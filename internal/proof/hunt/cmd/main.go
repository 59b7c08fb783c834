// Command cmd is the soak test: a leak hunt (package hunt) through the proxy, in front of simulated servers, all in this process.
// It hunts in one protocol after the other and prints a report. It fails with the traces of both sessions if a result reached the
// wrong session. It also fails if sessions fail without a reason, or if hardly a connection served a second session, since nothing
// could leak then. `make soak` runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

func main() { kit.Main("hunt", run) }

// settings are the flags.
type settings struct {
	sessions    int
	protocols   string
	unsafe      string
	profile     string
	nasty       string
	fail        string
	manners     string
	latency     time.Duration
	jitter      time.Duration
	servers     int
	connections int
	resetWithin time.Duration
	gcEvery     time.Duration
	tls         bool
	failover    bool
	killEvery   time.Duration
	hunt        hunt.Options
}

func parse(args []string, out io.Writer) (*settings, error) {
	s := new(settings)
	flags := kit.NewFlags("hunt", out)
	flags.IntVar(&s.sessions, "sessions", 1_000_000, "number of all sessions, shared evenly by the protocols")
	flags.StringVar(&s.protocols, "protocols", strings.Join(reusable(), ","), "comma-separated `names` of protocols")
	flags.StringVar(&s.unsafe, "unsafe", risky,
		"comma-separated `risks` that profiles accept: protocol=quiet, doubt or blind (no reset: the hunt must find leaks)")
	flags.StringVar(&s.profile, "profile", "", "`name` of the profile for all protocols (default: each protocol's own)")
	flags.StringVar(&s.nasty, "nasty", "", "`list` of bad habits of the servers, as for wsbouncer sim")
	flags.StringVar(&s.fail, "fail", "", "`list` of failures of the servers, as for wsbouncer sim")
	flags.StringVar(&s.manners, "manners", "", "shares of the ways in which sessions end: a `list` such as clean-end:9,vanish:1")
	flags.DurationVar(&s.latency, "latency", 0, "`time` between a message and its answer")
	flags.DurationVar(&s.jitter, "jitter", time.Millisecond, "maximum `time` added to the latency")
	flags.IntVar(&s.servers, "servers", 2, "number of simulated servers")
	flags.IntVar(&s.connections, "connections", 32, "maximum number of connections to each server")
	flags.DurationVar(&s.resetWithin, "reset-timeout", 200*time.Millisecond, "maximum `time` for the reset of a connection, without -profile")
	flags.DurationVar(&s.gcEvery, "gc-every", 0, "`time` between two forced garbage collections; 0 for none")
	flags.BoolVar(&s.tls, "tls", false, "use TLS on both sides: from clients to the proxy, and from the proxy to the servers")
	flags.BoolVar(&s.failover, "failover", false, "let sessions go on with another server when theirs fails, where their profile can do that")
	flags.DurationVar(&s.killEvery, "kill-every", 0, "mean `time` between two deaths of servers, in the middle of their frames; they are back soon; 0 for none")
	flags.IntVar(&s.hunt.Concurrency, "concurrency", 64, "number of sessions at a time")
	flags.Uint64Var(&s.hunt.Seed, "seed", 1, "`number` that makes the sessions repeatable")
	flags.Float64Var(&s.hunt.Settings, "settings", 0.02, "`probability` that a session has settings of its own")
	flags.IntVar(&s.hunt.MaxChunks, "chunks", 6, "maximum number of audio messages in a session")
	flags.DurationVar(&s.hunt.Timeout, "timeout", 10*time.Second, "how long a session waits for an answer, as a `duration`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if s.manners != "" {
		var err error
		if s.hunt.Manners, err = hunt.ParseManners(s.manners); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// risky are the profiles that reuse connections only if a risk is accepted. The simulated servers do not show the risks of doubt
// without -nasty.
const risky = "funasr=doubt,sherpa-onnx=quiet,vllm-realtime=doubt,watson=doubt,sglang-realtime=doubt"

// reusable returns the protocols whose connections are reused.
func reusable() []string {
	var names []string
	for _, protocol := range hunt.Dialogues() {
		p, err := profile.Named(protocol)
		if err == nil && (p.Reuse != profile.OneShot || strings.Contains(risky, protocol+"=")) {
			names = append(names, protocol)
		}
	}
	return names
}

// run hunts in all protocols.
func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "hunt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	defer collect(s.gcEvery)()
	protocols := strings.Split(s.protocols, ",")
	first := uint64(1)
	var total hunt.Report
	for i, protocol := range protocols {
		share := kit.Share(s.sessions, i, len(protocols))
		report, err := s.huntIn(ctx, protocol, folder, share, first, out)
		if err != nil {
			return err
		}
		first += uint64(share)
		total.Sessions += report.Sessions
		total.Leaks += report.Leaks
		if err := report.Err(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d sessions in all, %d leaks\n", total.Sessions, total.Leaks)
	return nil
}

// beside calls act again and again, with a pause of its own choice between two calls, until stop is called.
func beside(act func(ctx context.Context) error) (stop func()) {
	crew := kit.NewCrew(context.Background())
	crew.Go(func(ctx context.Context) {
		for act(ctx) == nil {
		}
	})
	return crew.End
}

// collect forces garbage collections until stop is called; none if the time is 0. Each one stops the whole process for a moment,
// including event loops that wait without the scheduler.
func collect(every time.Duration) (stop func()) {
	if every <= 0 {
		return func() {}
	}
	return beside(func(ctx context.Context) error {
		runtime.GC()
		return kit.Wait(ctx, every)
	})
}

// killing kills servers at random until stop is called, each for a moment; none if the time is 0.
func killing(servers []*sim.Server, every time.Duration, seed uint64) (stop func()) {
	if every <= 0 {
		return func() {}
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	return beside(func(ctx context.Context) error {
		if err := kit.Wait(ctx, kit.Between(dice, 1, 2*every)); err != nil {
			return err
		}
		victim := servers[dice.IntN(len(servers))]
		victim.Kill()
		err := kit.Wait(ctx, kit.Between(dice, 0, every)) // it comes back in any case
		_ = victim.Revive()                               // fails only if another process has taken its port: then it stays dead, and the hunt continues with the others
		return err
	})
}

// huntIn hunts in one protocol.
func (s *settings) huntIn(ctx context.Context, protocol, folder string, sessions int, first uint64, out io.Writer) (hunt.Report, error) {
	nasty, err := sim.ParseNasty(s.nasty)
	if err != nil {
		return hunt.Report{}, err
	}
	fail, err := sim.ParseFail(s.fail)
	if err != nil {
		return hunt.Report{}, err
	}
	if _, err := hunt.DialogueNamed(protocol, ""); err != nil {
		return hunt.Report{}, err
	}
	profileSettings, err := s.settingsOf(protocol)
	if err != nil {
		return hunt.Report{}, err
	}
	name, file := s.profile, ""
	if name == "" {
		name = protocol + "-hunted"
		if file, err = kit.WriteProfile(folder, name, protocol, profileSettings...); err != nil {
			return hunt.Report{}, err
		}
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	set, err := stage.Start(starting, stage.Options{
		Server: sim.Options{
			Protocol: protocol, Nasty: nasty, Fail: fail, Latency: s.latency, Jitter: s.jitter, Seed: s.hunt.Seed,
		},
		Servers: s.servers, Proxy: s.proxy(name, file), TLS: s.tls,
	})
	if err != nil {
		return hunt.Report{}, fmt.Errorf("%s: %w", protocol, err)
	}
	defer set.Close()
	o := s.hunt
	o.URL, o.Protocol, o.Sessions, o.First = set.URL(), protocol, sessions, first
	o.TLS = set.ClientTLS()
	stop := killing(set.Servers(), s.killEvery, s.hunt.Seed)
	report, err := hunt.Run(ctx, o)
	stop()
	fmt.Fprintf(out, "%s  profile %s; %d connections to the servers\n", report.String(), name, set.Accepted())
	if err != nil {
		return report, err
	}
	var pool api.Totals
	for _, b := range set.Proxy().Stats().Backends {
		pool.Leased += b.Totals.Leased
		pool.Returned += b.Totals.Returned
	}
	return report, s.judge(&report, &pool)
}

// leastReused is the part of the sessions, 1/leastReused, that must leave their connection to another one. With the default manners, three quarters do.
const leastReused = 4

// judge returns an error if a hunt without leaks has not tested what it is for. The pool has the totals of all servers' connections.
func (s *settings) judge(report *hunt.Report, pool *api.Totals) error {
	troubled := s.nasty != "" || s.fail != "" || s.killEvery > 0
	clean := report.ByManner[hunt.CleanEnd]
	switch {
	case report.Leaks > 0: // Report.Err says more
		return nil
	case report.Completed == 0:
		return fmt.Errorf("%s: no session got its last result, so nothing was tested", report.Protocol)
	case pool.Returned == 0:
		return fmt.Errorf("%s: no connection served a second session, so nothing could leak", report.Protocol)
	case troubled: // sessions fail, and connections break
		return nil
	case report.Failed()+report.Refused+report.Busy+report.Mute > 0:
		return fmt.Errorf("%s: of %d sessions, %d failed, %d were refused, and %d got nothing of their own audio, although no server fails",
			report.Protocol, report.Sessions, report.Failed(), report.Refused+report.Busy, report.Mute)
	case report.Completed != clean:
		return fmt.Errorf("%s: of %d sessions that ended in order, %d got their last result", report.Protocol, clean, report.Completed)
	case pool.Returned < pool.Leased/leastReused:
		return fmt.Errorf("%s: only %d of %d sessions left their connection to another one, so hardly anything could leak",
			report.Protocol, pool.Returned, pool.Leased)
	}
	return nil
}

// settingsOf returns the settings of a protocol's profile for a hunt: a limit to the time of resets, and the risks that are accepted, by a list such as
// "funasr=doubt,sherpa-onnx=quiet+blind".
func (s *settings) settingsOf(protocol string) (all []string, err error) {
	all = []string{fmt.Sprintf("reset: {timeout: %v}", s.resetWithin)}
	for _, word := range strings.FieldsFunc(s.unsafe, func(r rune) bool { return r == ',' }) {
		of, risk, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains(hunt.Dialogues(), of) {
			return nil, fmt.Errorf("-unsafe: %q: use protocol=risk, where the risk is quiet, doubt or blind, or several of these joined by +", word)
		}
		if of == protocol {
			all = append(all, fmt.Sprintf("unsafe: [%s]", strings.ReplaceAll(risk, "+", ", ")))
		}
	}
	return all, nil
}

// proxy returns what changes the proxy's settings for a hunt with that profile.
func (s *settings) proxy(profile, file string) func(*app.Settings) {
	return func(settings *app.Settings) {
		stage.ForHunt(settings, s.connections)
		settings.Profile = profile
		if file != "" {
			settings.ProfileFiles = []string{file}
		}
		settings.ConnectionMaxAge = 10 * time.Minute
		if s.failover {
			settings.Failover, settings.StallTimeout = "replay", time.Second
		}
	}
}
