package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/app/supervisor"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/processlog"
)

func newServeCommand() *cobra.Command {
	var flags serveFlags
	var takeOver string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `Run the proxy until SIGINT or SIGTERM.

The proxy serves the services and backends in its database, which may change while it runs
('wsbouncer service', 'wsbouncer backend'); or, with --backend, one service that flags
describe. Settings of the process come from a YAML file ('wsbouncer config init' writes
one), environment variables and flags; later ones win. On SIGHUP, the proxy reads the file,
the environment and the files of TLS certificates again. On SIGUSR1, it opens the file of the
access log again. If systemd started it (Type=notify), it says when it is ready, reloads and
stops, and serves the watchdog.

On SIGINT or SIGTERM, the proxy is no longer ready, and still accepts clients for
--shutdown-delay. Then it closes its listeners and lets sessions finish for up to
--drain-timeout. Over the last third of that, at most 10 minutes, it closes those that are
left with code 1001, one after the other, and exits with status 0. A second signal ends it at
once.

With --take-over, the proxy takes the listening sockets of the one that runs with the same
state directory, over its admin socket: it gets ready, and then the other one stops
accepting clients and drains. If no proxy runs, it starts as usual. 'wsbouncer upgrade' has
the running proxy start its successor by itself. Sockets that systemd has opened (a socket
unit) are used for the addresses of the settings that they are for.`,
		Example: `  # The services in the database of the state directory
  wsbouncer serve --listen 127.0.0.1:8080 --admin 127.0.0.1:9090

  # Clients speak TLS
  wsbouncer serve --tls-listen :8443 --tls-cert /etc/wsbouncer/stt.pem --tls-key /etc/wsbouncer/stt-key.pem

  # Settings from a file, the configuration in PostgreSQL
  wsbouncer serve --settings /etc/wsbouncer/wsbouncer.yaml --database postgres://wsbouncer_proxy@db/wsbouncer

  # Two servers that answer every message with exactly one, so connections are reused
  wsbouncer serve --backend ws://127.0.0.1:9001 --backend ws://127.0.0.1:9002 \
      --profile echo --connections 1000 --warm 1000

  # Any server: each connection is opened in advance, used once, and replaced
  wsbouncer serve --backend ws://127.0.0.1:2700 --connections 32`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &flags, takeOver) },
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&takeOver, takeOverFlag, "", "take over from the running proxy, at its admin socket (=unix:/path for another one)")
	cmd.Flags().Lookup(takeOverFlag).NoOptDefVal = fromAdminSocket
	return cmd
}

func serve(cmd *cobra.Command, flags *serveFlags, takeOver string) (err error) {
	successor, err := newHeir(takeOver, buildVersion())
	if err != nil {
		return usageError(err)
	}
	defer func() { successor.failed(err) }()
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGHUP) // from the beginning, since by default it ends the process
	defer signal.Stop(requests)
	reopen := make(chan os.Signal, 1)
	if len(reopenSignals) > 0 { // none would mean all
		signal.Notify(reopen, reopenSignals...)
		defer signal.Stop(reopen)
	}
	signal.Ignore(syscall.SIGPIPE) // a reader of the log that ends must not end the process
	var log *settings.Log
	sources := settings.Sources{Flags: &flags.process, Environment: os.Environ}
	loaded, err := flags.load(sources)
	if err != nil {
		return usageError(err)
	}
	output, closeOutput := logOutput(cmd.ErrOrStderr(), func(lines int) { log.Warn("lines of the log were left out, since nobody read it", "lines", lines) })
	defer closeOutput()
	log = settings.NewLog(output, &loaded.Settings)
	warn(log.Logger, loaded)
	if loaded.File != "" {
		log.Info("settings read", "file", loaded.File)
	}
	all, err := flags.settings(loaded)
	if err != nil {
		return usageError(err)
	}
	r := newReloader(loaded, log, func() (*settings.Loaded, error) { return flags.loadProcess(sources) })
	r.database = !flags.onlyFlags()
	all.RecoverPanics, all.Level, all.Program, all.Own = true, log.Level, program(), admin.Settings{List: r.list, Reload: r.ask}
	if err := inherit(&all); err != nil {
		return err
	}
	ctx := cmd.Context() // ends with SIGINT or SIGTERM
	if err := successor.ask(ctx, takeOver, &all, log.Logger); err != nil {
		return err
	}
	manager := supervisor.Connect(log.Logger)
	defer manager.Close()
	if !successor.took() {
		manager.Starting("Starting: opening listeners, reading the configuration")
	}
	proxy, err := app.Start(ctx, all, buildVersion(), log.Logger)
	if err != nil && ctx.Err() != nil && !successor.took() {
		manager.Stopping()
		log.Info("stopped before it was ready", "reason", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := successor.succeed(ctx, proxy); err != nil {
		successor.failed(err)
		proxy.Shutdown()
		return err
	}
	if successor.took() {
		manager.TakeOver()
	}
	r.apply = func(now *settings.Loaded) { proxy.Reconfigure(now.InUse(r.database), now.Tokens) }
	r.reopen, r.manager = proxy.ReopenAccessLog, manager
	manager.Ready(proxy)
	serving, stopReloading := context.WithCancel(context.Background()) // reloads also change what a drain does
	reloading := make(chan struct{})
	go func() {
		defer close(reloading)
		r.run(serving, requests, reopen)
	}()
	select {
	case <-ctx.Done():
		manager.Stopping()
		proxy.Drain()
	case <-proxy.TakenOver():
		manager.HandOver(proxy.Successor().PID)
		stop := context.AfterFunc(ctx, manager.Stopping)
		proxy.DrainTakenOver(ctx)
		stop()
	}
	stopReloading()
	<-reloading
	proxy.Close()
	return nil
}

// load reads the settings. The error has everything that is wrong with them, and with the flags that describe a service.
func (f *serveFlags) load(sources settings.Sources) (*settings.Loaded, error) {
	loaded, err := f.loadProcess(sources)
	if !f.onlyFlags() {
		return loaded, err
	}
	all, invalid := f.settings(loaded)
	if err := errors.Join(err, invalid, all.Check()); err != nil {
		return nil, err
	}
	return loaded, nil
}

// loadProcess reads the settings of the process. The error has everything that is wrong with them, also together with the flags
// that describe a service.
func (f *serveFlags) loadProcess(sources settings.Sources) (*settings.Loaded, error) {
	loaded, err := sources.Load()
	if err := errors.Join(append([]error{err}, f.misused(loaded)...)...); err != nil {
		return nil, err
	}
	return loaded, nil
}

// logOutput returns where the log is written, which never waits for its reader. The second result writes the rest.
func logOutput(to io.Writer, leftOut func(lines int)) (io.Writer, func()) {
	file, ok := to.(*os.File)
	if !ok {
		return to, func() {}
	}
	w := processlog.New(file, leftOut)
	return w, w.Close
}
