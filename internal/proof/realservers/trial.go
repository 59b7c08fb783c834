//go:build linux

package realservers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/lab/verify"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Options are the settings of a run.
type Options struct {
	// Binary is the path of the program.
	Binary string
	// Servers is the directory with the descriptions, and Only the names of those to try; all if it is empty.
	Servers string
	Only    []string
	// Sources is a directory with checkouts of the repositories whose programs are in no registry; empty to clone them.
	Sources string
	// Cache is where servers are installed and where logs go.
	Cache string
	// Steps are the steps to take, whose results replace those in Before; all if it is empty.
	Steps  []string
	Before []*Result
	// Sessions is how many sessions the trial of reuse has.
	Sessions int
	// Log gets a line for each event.
	Log *kit.Journal
}

// How sessions are held: the clients that hold them at a time, the connections that the proxy may have meanwhile, and the time of each wait.
const (
	clients     = 8
	connections = 4
	wait        = 60 * time.Second
)

// trial is a server that is being tried. One goroutine owns it.
type trial struct {
	*Server
	Options
	profile     *profile.Profile
	environment *environment
	logs        string
	recordings  []*speaker.Recording // of some seconds, all different
	running     []*server
	proxies     []*kit.Proxy
	seed        uint64
}

// Run tries the servers, one after the other. What was found is in the results; the error says that no server could be tried.
func Run(ctx context.Context, o Options) ([]*Result, error) {
	all, err := Load(o.Servers)
	for _, path := range []*string{&o.Cache, &o.Binary, &o.Sources} { // servers run in their own folders
		if absolute, e := filepath.Abs(*path); *path != "" && err == nil {
			*path, err = absolute, e
		}
	}
	if err != nil {
		return nil, err
	}
	for _, step := range o.Steps {
		if !slices.Contains(steps[1:], step) {
			return nil, kit.Misuse(fmt.Errorf("steps: %q: use %s", step, strings.Join(steps[1:], ", ")))
		}
	}
	if len(o.Only) > 0 {
		var some []*Server
		for _, name := range o.Only {
			s, err := kit.Find("server", name, all, func(s **Server) string { return (*s).name })
			if err != nil {
				return nil, kit.Misuse(err)
			}
			some = append(some, *s)
		}
		all = some
	}
	var results []*Result
	for _, s := range all {
		result := try(ctx, o, s)
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
		results = append(results, result)
	}
	return results, nil
}

// steps are what is done with a server.
var steps = []string{"install", "verify", "client", "reuse", "failover", "warm"}

// try tries a server.
func try(ctx context.Context, o Options, s *Server) *Result {
	r := &Result{Name: s.name, Server: s.Title, Homepage: s.Homepage, Version: s.Version, Profile: s.Profile, Note: s.Note, Date: time.Now().UTC().Format(time.DateOnly)}
	t := &trial{Server: s, Options: o, logs: filepath.Join(o.Cache, "logs"), seed: rand.Uint64()}
	defer t.end(true)
	if len(o.Steps) > 0 { // the other steps' results stay
		i := slices.IndexFunc(o.Before, func(b *Result) bool {
			return b.Name == r.Name && b.Version == r.Version && b.Profile == r.Profile && b.Skipped == ""
		})
		if i < 0 {
			r.Skipped = "all steps must be taken first"
			return r
		}
		former := *o.Before[i]
		former.Server, former.Homepage, former.Note = r.Server, r.Homepage, r.Note
		former.Faults = slices.DeleteFunc(slices.Clone(former.Faults), func(fault string) bool {
			step, _, _ := strings.Cut(fault, ":")
			return slices.Contains(o.Steps, step)
		})
		r = &former
	}
	for i, do := range []func(context.Context, *Result) error{t.prepare, t.claims, t.own, t.reuse, t.failover, t.warm} {
		step := steps[i]
		if i > 0 && len(o.Steps) > 0 && !slices.Contains(o.Steps, step) {
			continue
		}
		began := time.Now()
		err := do(ctx, r)
		t.end(err != nil)
		if errors.Is(err, errSkipped) {
			r.Skipped = strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")
			o.Log.Event("%s: skipped: %s", s.name, r.Skipped)
			return r
		}
		if err != nil {
			r.Faults = append(r.Faults, step+": "+err.Error())
			o.Log.Event("%s: %s FAILED: %v", s.name, step, err)
			continue
		}
		o.Log.Event("%s: %s done after %v", s.name, step, time.Since(began).Round(100*time.Millisecond))
	}
	return r
}

// end ends the servers and proxies that run. keep is whether the proxies' files stay.
func (t *trial) end(keep bool) {
	for _, p := range t.proxies {
		p.KillAll()
		if !keep {
			_ = os.RemoveAll(filepath.Dir(p.Directory))
		}
	}
	for _, s := range t.running {
		s.KillGroup()
	}
	t.proxies, t.running = nil, nil
}

// prepare installs the server and makes the recordings.
func (t *trial) prepare(ctx context.Context, _ *Result) (err error) {
	if t.environment, err = t.install(ctx, t.Cache, t.Sources); err != nil {
		return err
	}
	profiles, err := profile.Parse(t.name, t.profiles())
	if err != nil {
		return err
	}
	t.profile = profiles[0]
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		return err
	}
	const length = 3 * time.Second
	size := 2 * int(length.Seconds()*float64(audio.SampleRate))
	for i := range clients {
		part := *audio
		from := (len(audio.PCM) - size) * i / (clients - 1) &^ 1
		part.PCM = slices.Concat(audio.PCM[from:from+size], make([]byte, int(t.Silence.Seconds()*float64(audio.SampleRate))*2))
		recording, err := speaker.NewRecording(t.profile, &part, length+t.Silence, t.Model)
		if err != nil {
			return err
		}
		t.recordings = append(t.recordings, recording)
	}
	return nil
}

// serve starts the server.
func (t *trial) serve(ctx context.Context, arguments []string) (*server, error) {
	s, err := t.start(ctx, t.environment, arguments, t.logs)
	if err == nil {
		t.running = append(t.running, s)
	}
	return s, err
}

// target returns where sessions begin.
func (t *trial) target(address string) (*handshake.Target, error) {
	target, err := handshake.ParseTarget(t.url(address))
	if err != nil {
		return nil, err
	}
	target.Protocol = t.profile.Subprotocol
	if query := t.recordings[0].Query(); query != "" {
		target.AddQuery(query)
	}
	return target, nil
}

// options returns how sessions are held and compared.
func (t *trial) options(address string, recordings int) (verify.Options, error) {
	target, err := t.target(address)
	return verify.Options{
		Profile: t.profile, Target: target, Recordings: t.recordings[:recordings], Connections: 60, Wait: wait, Pace: t.Pace, Seed: t.seed,
	}, err
}

// claims tries the claims of the profile; on a server that can be full if there is such a way to start it.
func (t *trial) claims(ctx context.Context, r *Result) error {
	arguments := t.Start
	if len(t.Full.Start) > 0 {
		arguments = t.Full.Start
	}
	s, err := t.serve(ctx, arguments)
	if err != nil {
		return err
	}
	o, err := t.options(s.address, 2)
	if err != nil {
		return err
	}
	o.Progress = func(what string) { t.Log.Event("%s: %s", t.name, what) }
	report, err := verify.Run(ctx, o)
	r.Claims = nil
	for _, c := range report.Claims {
		r.Claims = append(r.Claims, Claim{c.Name, string(c.Verdict)})
		if c.Name == "busy" && c.Verdict == verify.Holds {
			r.Full = c.Why
		}
	}
	if err != nil {
		return err
	}
	if text := t.unexpected(report); text != "" {
		return errors.New(text)
	}
	return nil
}

// proxy starts a proxy in front of servers. further are more settings of the service, each after a comma.
func (t *trial) proxy(ctx context.Context, connections int, further string, servers ...*server) (*kit.Proxy, error) {
	directory, err := os.MkdirTemp(t.Cache, "proxy-"+t.name+"-")
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(t.Path, "?")
	if query != "" {
		query = "?" + query
	}
	var b strings.Builder
	b.Write(t.profiles())
	fmt.Fprintf(&b, "services:\n  tried: {path: '%s', profile: tried, queue: 1000, queue-timeout: 1m%s}\nbackends:\n", path, further)
	for i, s := range servers {
		fmt.Fprintf(&b, "  server-%d: {service: tried, url: 'ws://%s%s%s', connections: %d, warm: 1}\n", i+1, s.address, path, query, connections)
	}
	file := filepath.Join(directory, "configuration.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	p, err := kit.NewProxy(t.Binary, "proxy", directory)
	if err != nil {
		return nil, err
	}
	t.proxies = append(t.proxies, p)
	if err := p.Start(ctx, "--database", file, "--log-level", "info"); err != nil {
		return nil, err
	}
	return p, p.Until(ctx, "its servers can take sessions", func() (bool, error) {
		stats, err := p.Stats(ctx)
		return err == nil && len(stats.Backends) == len(servers), nil
	})
}

// own has the server's own client speak to the server, twice, and to the proxy: it must print the same.
func (t *trial) own(ctx context.Context, r *Result) error {
	if len(t.Client) == 0 {
		r.Client = "none"
		return nil
	}
	s, err := t.serve(ctx, t.Start)
	if err != nil {
		return err
	}
	p, err := t.proxy(ctx, connections, "", s)
	if err != nil {
		return err
	}
	audio := filepath.Join(t.Cache, "speech.wav")
	if err := os.WriteFile(audio, speech.WAV, 0o600); err != nil {
		return err
	}
	var directly []string
	for range 2 {
		text, err := t.client(ctx, s.address, audio)
		if err != nil {
			return fmt.Errorf("without the proxy: %w", err)
		}
		directly = append(directly, text)
	}
	for range 3 { // the second and the third get a connection that was used, where the profile allows it
		text, err := t.client(ctx, p.Listen, audio)
		if err != nil {
			return fmt.Errorf("through the proxy: %w", err)
		}
		if slices.Contains(directly, text) {
			continue
		}
		again, err := t.client(ctx, s.address, audio) // two may not show all that a server says at times
		if err == nil && again != text {
			err = fmt.Errorf("its client printed through the proxy:\n%s\nand without it:\n%s", text, directly[0])
		}
		if err != nil {
			r.Client = "differs"
			return err
		}
	}
	r.Client = "same"
	return nil
}

// clientTimeout is how long the server's own client may take.
const clientTimeout = 2 * time.Minute

// client runs the server's own client, and returns what it printed.
func (t *trial) client(ctx context.Context, address, audio string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	full := t.environment.arguments(t.Server, append(append([]string{}, t.Client...), t.url(address), audio))
	c := exec.CommandContext(ctx, full[0], full[1:]...)
	c.Dir = t.folder
	c.Env = append(os.Environ(), "SOURCE="+t.environment.source, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
	var diagnostics strings.Builder
	c.Stderr = &diagnostics
	out, err := c.Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return number.ReplaceAllStringFunc(text, rounded), nil
	}
	last := diagnostics.String()
	return "", fmt.Errorf("its client printed %.200q (%v): %s", out, err, last[max(0, len(last)-500):])
}

// Numbers are compared to a tenth of a thousandth: a server that adds up times as it goes writes 0.089999 in one session and 0.090000 in another.
var number = regexp.MustCompile(`\d+\.\d{5,}`)

func rounded(text string) string {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(value, 'f', 4, 64)
}

// reuse holds many sessions with different audio over few connections, which are left in every manner: none may have another's words.
func (t *trial) reuse(ctx context.Context, r *Result) error {
	s, err := t.serve(ctx, t.Start)
	if err != nil {
		return err
	}
	p, err := t.proxy(ctx, connections, "", s)
	if err != nil {
		return err
	}
	report, stats, err := t.crowd(ctx, s.address, p, verify.Crowd{Sessions: t.Sessions, Clients: clients, Leaving: t.Leaving})
	if err != nil {
		return err
	}
	r.Reuse = &Reuse{CrowdReport: *report}
	for i := range stats.Backends {
		r.Reuse.Dialed += stats.Backends[i].Totals.Dialed
	}
	return t.fault(report)
}

// crowd holds the sessions of a crowd through the proxy. stats is what the proxy counted meanwhile.
func (t *trial) crowd(ctx context.Context, direct string, p *kit.Proxy, c verify.Crowd) (report *verify.CrowdReport, stats *api.Stats, err error) {
	o, err := t.options(direct, len(t.recordings))
	o.Progress = func(what string) { t.Log.Event("%s: %s", t.name, what) }
	if err == nil {
		c.Through, err = t.target(p.Listen)
	}
	if err == nil {
		report, err = verify.RunCrowd(ctx, o, c)
	}
	if err == nil {
		stats, err = p.Stats(ctx)
	}
	return report, stats, err
}

// fault says which sessions went wrong. Where connections are not reused, other words than a direct session's, which no other session has, are the
// server's own: such as those of one that cuts its audio by the clock.
func (t *trial) fault(c *verify.CrowdReport) error {
	kinds := []struct {
		what string
		all  []string
	}{{"had another session's words", c.Foreign}, {"did not come to their end", c.Lost}}
	if t.profile.Reuse != profile.OneShot {
		kinds = append(kinds, struct {
			what string
			all  []string
		}{"had other results than a direct one", c.Other})
	}
	var all []error
	for _, k := range kinds {
		if len(k.all) > 0 {
			all = append(all, fmt.Errorf("%d of %d sessions %s: %s", len(k.all), c.Held(), k.what, k.all[0]))
		}
	}
	return errors.Join(all...)
}

// failover kills one of two servers while sessions stream.
func (t *trial) failover(ctx context.Context, r *Result) error {
	f := t.profile.Failover()
	if r.Verdict = f.Verdict.String(); f.Verdict == profile.Never {
		return nil
	}
	var both []*server
	for range 2 {
		s, err := t.serve(ctx, t.Start)
		if err != nil {
			return err
		}
		both = append(both, s)
	}
	p, err := t.proxy(ctx, clients, ", failover: replay, balance: round-robin", both...)
	if err != nil {
		return err
	}
	killer := kit.NewCrew(ctx)
	defer killer.End()
	report, stats, err := t.crowd(ctx, both[1].address, p, verify.Crowd{Sessions: clients, Clients: clients, Begin: func() {
		killer.Go(func(ctx context.Context) {
			if kit.Wait(ctx, time.Duration(1.5/t.Pace*float64(time.Second))) == nil { // in the middle of the recordings
				both[0].KillGroup()
			}
		})
	}})
	if err != nil {
		return err
	}
	r.Failover = &Failover{CrowdReport: *report}
	for i := range stats.Services {
		if f := stats.Services[i].Failover; f != nil {
			r.Failover.Moved += int(f.Moved)
		}
	}
	if r.Failover.Moved == 0 {
		return errors.New("no session moved")
	}
	lost := *report
	lost.Other = nil // a recogniser that begins in the middle may hear other words: the matrix says how many did
	return t.fault(&lost)
}

// waiting is how many connections wait for a session in the trial of what they cost.
const waiting = 20

// warm tells what connections that wait for a session cost the server.
func (t *trial) warm(ctx context.Context, r *Result) error {
	s, err := t.serve(ctx, t.Start)
	if err != nil {
		return err
	}
	o, err := t.options(s.address, 1)
	if err != nil {
		return err
	}
	if _, err := verify.RunCrowd(ctx, o, verify.Crowd{}); err != nil { // it loads what the first sessions need
		return err
	}
	w := &Warm{Asked: waiting}
	r.Warm = w
	if w.Waits, err = t.waits(ctx, o); err != nil {
		return err
	}
	memory, lines := s.resident(), s.lines()
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for range waiting {
		dialing, cancel := context.WithTimeout(ctx, wait)
		established, err := o.Target.Dial(dialing)
		cancel()
		if err != nil {
			w.Refused = err.Error()
			break
		}
		open = append(open, established.Conn)
	}
	if err := kit.Wait(ctx, 5*time.Second); err != nil {
		return err
	}
	w.Connections = len(open)
	if len(open) > 0 {
		w.BytesEach, w.LinesEach = (s.resident()-memory)/int64(len(open)), float64(s.lines()-lines)/float64(len(open))
	}
	return t.keeps(w.Waits)
}

// waited is a connection that has waited for its session: what the server said meanwhile comes first.
type waited struct {
	*speaker.Conn
	said []speaker.Message
}

// Receive implements [speaker.Line].
func (w *waited) Receive(until time.Time) (speaker.Message, error) {
	if len(w.said) == 0 {
		return w.Conn.Receive(until)
	}
	m := w.said[0]
	w.said = w.said[1:]
	return m, nil
}

// waits has a connection wait for its session, which it answers pings meanwhile, and then holds the session.
func (t *trial) waits(ctx context.Context, o verify.Options) (*Waits, error) {
	dialing, cancel := context.WithTimeout(ctx, wait)
	established, err := o.Target.Dial(dialing)
	cancel()
	if err != nil {
		return nil, err
	}
	conn := &waited{Conn: speaker.NewConn(established, wait)}
	defer conn.Hang()
	defer context.AfterFunc(ctx, conn.Abort)()
	began, found := time.Now(), new(Waits)
	for {
		m, err := conn.Conn.Receive(began.Add(t.Watch))
		found.Seconds = time.Since(began).Round(time.Second).Seconds()
		if errors.Is(err, speaker.ErrTimeout) {
			break
		}
		if err != nil {
			found.Closed = err.Error()
			return found, context.Cause(ctx)
		}
		conn.said = append(conn.said, m)
	}
	_, err = t.recordings[0].Speak(ctx, conn, speaker.Options{Pace: t.Pace, Token: t.seed, Ready: wait, Last: wait})
	if err != nil {
		found.Dead = err.Error()
	}
	return found, context.Cause(ctx)
}

// keeps compares how long the server lets a connection wait with how long the proxy does, as the profile says.
func (t *trial) keeps(w *Waits) error {
	idle, seconds := t.profile.Limits.Idle, time.Duration(w.Seconds)*time.Second
	switch ends := w.Closed + w.Dead; {
	case t.profile.Predial == profile.PredialNever: // no connection waits
	case ends != "" && (idle <= 0 || idle >= seconds):
		return fmt.Errorf("a connection that waited was good for less than %v (%s), but the profile's limits.idle is %v", seconds, ends, idle)
	case ends == "" && 0 < idle && idle < seconds:
		return fmt.Errorf("a connection was as good as new after %v, but the profile's limits.idle is %v", seconds, idle)
	}
	return nil
}
