package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
	"github.com/wsbouncer/wsbouncer/internal/settings"
)

// serveFlags are the flags of serve, which check shares: the settings of the process, and those that describe one service
// (flags-only operation).
type serveFlags struct {
	process settings.Flags
	service app.Settings // what the flags say of the service; what is the process's is not here
	about   *pflag.FlagSet
}

// add adds the flags to a command, and groups them in its help.
func (f *serveFlags) add(cmd *cobra.Command) {
	process := newFlagSet()
	f.process.Add(process)
	f.service = app.DefaultSettings()
	f.about = newFlagSet()
	addServiceFlags(f.about, &f.service)
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(process)
	cmd.Flags().AddFlagSet(f.about)
	groupFlags(cmd, flagGroup{"Settings of the process (in a file: their names; in the environment: WSBOUNCER_LISTEN and so on)", process},
		flagGroup{"One service by flags, without a database", f.about})
}

func newFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

func addServiceFlags(f *pflag.FlagSet, s *app.Settings) {
	f.StringArrayVar(&s.Backends, "backend", nil, "URL of an inference server, ws://host:port/path or wss:// (repeat for several); settings of its own may follow, each after a comma: connections=N, warm=N, weight=X, state=enabled|draining|disabled")
	f.StringVar(&s.Path, "path", s.Path, "path that clients ask for; others get 404 (default: any)")
	f.StringVar(&s.Profile, "profile", s.Profile, "the servers' message protocol, such as vosk; one-shot, which uses a connection once, is right for all ('wsbouncer profile ls' lists them)")
	f.StringArrayVar(&s.ProfileFiles, "profile-file", nil, "YAML file with profiles of your own (repeat for several)")
	f.StringVar(&s.Subprotocol, "subprotocol", s.Subprotocol, "Sec-WebSocket-Protocol to ask the servers for, and to grant to clients that offer it (default: the profile's)")
	f.StringSliceVar(&s.Pass, "pass", nil, "what of a client's handshake the servers are told, beside what the profile says: "+profile.PassWords+" (several with commas between them, or repeat); a client that says any of it gets a connection of its own")
	f.StringArrayVar(&s.AllowOrigin, "allow-origin", nil, "accept browsers from this Origin only (repeat for several; default: any)")
	f.IntVar(&s.Connections, "connections", s.Connections, "cap of each server: connections that it ever sees at once")
	f.Var(warmValue{&s.Warm}, "warm", "connections kept ready beside those in use, within the cap (default: the cap)")
	f.StringVar(&s.Balance, "balance", s.Balance, "how a server is chosen for a client: "+strings.Join(pool.BalanceNames(), ", "))
	f.StringVar(&s.HashBy, "hash-by", s.HashBy, "with --balance hash, what names a client: client (its address), header:NAME or query:NAME")
	f.IntVar(&s.Queue, "queue", s.Queue, "most clients that wait when all connections are in use; 0 refuses them at once")
	f.DurationVar(&s.QueueTimeout, "queue-timeout", s.QueueTimeout, "for a connection to come free for a client that waits")
	f.Var((*sizeValue)(&s.MaxMessage), "max-message", "largest message from a client; 0 for no limit")
	f.DurationVar(&s.DialTimeout, "dial-timeout", s.DialTimeout, "for a server to accept a connection")
	f.DurationVar(&s.ResetTimeout, "reset-timeout", s.ResetTimeout, "for a connection's reset after a session; 0: as long as its profile allows")
	f.DurationVar(&s.IdleTimeout, "idle-timeout", s.IdleTimeout, "end sessions without a frame for so long; 0 for never")
	f.DurationVar(&s.MaxSession, "max-session", s.MaxSession, "end sessions that last longer; 0 for never")
	f.DurationVar(&s.ConnectionMaxAge, "connection-max-age", s.ConnectionMaxAge, "replace connections to servers that are older, or up to a quarter younger, once idle; 0 for never")
	f.DurationVar(&s.ConnectionMaxIdle, "connection-max-idle", s.ConnectionMaxIdle, "close connections beyond the warm ones that nobody used for so long")
	f.IntVar(&s.ConnectionMaxSessions, "connection-max-sessions", s.ConnectionMaxSessions, "replace connections that have served so many sessions; 0 for no limit")
	f.IntVar(&s.DialParallel, "dial-parallel", s.DialParallel, "connections dialed at once to each server")
	f.DurationVar(&s.PingInterval, "ping-interval", s.PingInterval, "between two pings on each connection to a server, or up to a quarter less; 0 for none")
	f.DurationVar(&s.PingTimeout, "ping-timeout", s.PingTimeout, "for a server to answer a ping, or to send anything else")
	f.DurationVar(&s.TCPUserTimeout, "tcp-user-timeout", s.TCPUserTimeout, "for a server's system to acknowledge what it was sent (Linux); 0 for the system's limit")
	f.StringVar(&s.Probe, "probe", s.Probe, "ask each server whether it is well: upgrade, a path such as /health, or a URL (default: do not)")
	f.DurationVar(&s.ProbeInterval, "probe-interval", s.ProbeInterval, "between two probes, plus or minus a fifth")
	f.DurationVar(&s.ProbeTimeout, "probe-timeout", s.ProbeTimeout, "for a probe to succeed")
	f.IntVar(&s.ProbeFall, "probe-fall", s.ProbeFall, "failed probes in a row that take a server out of service")
	f.IntVar(&s.ProbeRise, "probe-rise", s.ProbeRise, "successful probes in a row that bring it back")
	f.IntVar(&s.CircuitFailures, "circuit-failures", s.CircuitFailures, "failures in a row, of dialing or of sessions that the server broke, that take it out of service for a while")
	f.DurationVar(&s.SlowStart, "slow-start", s.SlowStart, "for a server that was out of service to get its full share of clients back; 0 for at once")
}

// onlyFlags tells whether one service is described by flags, without a database.
func (f *serveFlags) onlyFlags() bool { return len(f.service.Backends) > 0 }

// misused returns what is wrong with the flags that describe a service, each by itself and together with the settings.
func (f *serveFlags) misused(loaded *settings.Loaded) (errs []error) {
	if f.onlyFlags() {
		if loaded != nil && loaded.Database != "" {
			errs = append(errs, fmt.Errorf("--backend: flags cannot describe a service when a database is set (%s: database: %s): "+
				"use 'wsbouncer backend add' to add a backend to it", loaded.Source("database"), loaded.DatabaseShown()))
		}
		return errs
	}
	f.about.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			errs = append(errs, fmt.Errorf("--%s works only with --backend: use %s to change the database",
				flag.Name, commandFor(flag)))
		}
	})
	return errs
}

// commandFor returns the command that changes in the database what the flag says.
func commandFor(flag *pflag.Flag) string {
	text := flag.Value.String()
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		text = strings.Join(list.GetSlice(), ",")
	}
	switch {
	case flag.Name == "profile-file":
		return fmt.Sprintf("'wsbouncer profile add NAME --file %s'", text)
	case slices.ContainsFunc(config.Fields(config.KindBackend), func(field config.Field) bool { return field.Name == flag.Name }):
		return fmt.Sprintf("'wsbouncer backend set NAME --%s %s'", flag.Name, text)
	}
	return fmt.Sprintf("'wsbouncer service set NAME --%s %s'", flag.Name, text)
}

// settings returns the proxy's settings: those of the process, and what the flags say of the service.
func (f *serveFlags) settings(l *settings.Loaded) app.Settings {
	s := f.service
	s.Listen, s.Admin = l.Listen, l.Admin
	s.AdminSocket, s.AdminToken = l.Socket(!f.onlyFlags()), l.Token
	if !f.onlyFlags() {
		s.Database, s.StateDirectory = l.DatabaseInUse(), l.Directory()
	}
	s.Loops, s.IOURing, s.LoopWait, s.MaxHead = l.Loops, l.IOURing, l.LoopWait, int(l.MaxHeader)
	s.HandshakeTimeout, s.CloseTimeout, s.DrainTimeout = l.HandshakeTimeout, l.CloseTimeout, l.DrainTimeout
	return s
}
