package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/top"
)

// onceColumns is the width of a frame that goes to no terminal, unless COLUMNS says otherwise.
const onceColumns = 100

func newTopCommand() *cobra.Command {
	var from proxyFlags
	var interval time.Duration
	var once bool
	var limit int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running proxy on the whole terminal, and act",
		Long: `Watch a running proxy on the whole terminal: services, backends with their connections and health, clients that
wait, and sessions by rate, lag or age. Keys end a session, drain or enable a backend, and pause or resume a
service; ? explains them.

With --once, it prints one frame as text, also without a terminal: as wide as COLUMNS says, or 100 columns. It
has the cures of problems, and tenants, too.`,
		Example: `  wsbouncer top
  wsbouncer top --interval 1s --admin 10.0.0.1:9090
  COLUMNS=120 wsbouncer top --once --limit 10`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const least, most = api.MinEventInterval * time.Second, api.MaxEventInterval * time.Second
			switch {
			case interval < least || interval > most || interval%time.Second != 0:
				return usageError(fmt.Errorf("--interval: invalid duration \"%v\": use whole seconds from %v to %v", interval, least, most))
			case limit < 0:
				return usageError(fmt.Errorf("--limit: invalid number \"%d\": use a whole number from 0 (all)", limit))
			case !once && cmd.Flags().Changed("limit"):
				return usageError(errors.New("--limit works only with --once"))
			}
			out := cmd.OutOrStdout()
			if once {
				return from.use(func(proxy *client.Client) error {
					frame, err := top.Once(cmd.Context(), proxy, top.Style{Colours: colours(out), ASCII: asciiOnly(), Plain: !isTerminal(out)}, frameColumns(out), limit,
						from.curesAt(cmd, proxy).show)
					if err == nil {
						_, err = io.WriteString(out, frame)
					}
					return err
				})
			}
			in, ok := cmd.InOrStdin().(*os.File)
			if !ok || !term.IsTerminal(int(in.Fd())) || !isTerminal(out) {
				return usageError(errors.New("top needs a terminal for its keys and its screen: use --once for one frame as text, or 'wsbouncer status'"))
			}
			return from.use(func(proxy *client.Client) error {
				if err := proxy.Get(cmd.Context(), api.StatsPath, nil, new(api.Stats)); err != nil {
					return err // better here than on a screen that is empty otherwise
				}
				return top.Run(cmd.Context(), top.Options{
					Proxy: proxy, Operator: &operator{proxy: proxy}, Interval: interval,
					Style: top.Style{Colours: colours(out), ASCII: asciiOnly()}, In: in, Out: out,
				})
			})
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", api.DefaultEventInterval*time.Second, "time between two updates")
	cmd.Flags().BoolVar(&once, "once", false, "print one frame as text and end")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of sessions, and of waiting clients, that --once prints; 0 for all")
	from.add(cmd)
	from.addLocal(cmd)
	return cmd
}

// frameColumns returns how wide a single frame is.
func frameColumns(out io.Writer) int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return max(20, min(columns, 1000))
	}
	if isTerminal(out) {
		columns, _ := terminalSize(out)
		return columns
	}
	return onceColumns
}

// asciiOnly reports whether the locale has no characters beside those of ASCII. Without a locale, it has.
func asciiOnly() bool {
	for _, variable := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := os.Getenv(variable); locale != "" {
			return locale == "C" || locale == "POSIX" || strings.HasPrefix(locale, "C.") && !strings.Contains(strings.ToUpper(locale), "UTF")
		}
	}
	return false
}

// operator carries out the orders of top's user.
type operator struct {
	proxy *client.Client
}

// fromTop is the reason in the audit log and in the configuration's history.
const fromTop = "wsbouncer top"

func (o *operator) do(ctx context.Context, method, path string) (string, error) {
	var outcome api.Outcome
	err := o.proxy.Do(ctx, client.Request{Method: method, Path: path, Body: api.Order{Who: whoami(), Why: fromTop}}, &outcome)
	return outcome.Text, errors.Join(err, undone(&outcome))
}

// Session implements [top.Operator].
func (o *operator) Session(ctx context.Context, id string) (s api.SessionDetail, err error) {
	err = o.proxy.Get(ctx, sessionPath(id), nil, &s)
	return s, err
}

// Kill implements [top.Operator].
func (o *operator) Kill(ctx context.Context, id string) (string, error) {
	return o.do(ctx, http.MethodDelete, sessionPath(id))
}

// Pause implements [top.Operator].
func (o *operator) Pause(ctx context.Context, service string) (string, error) {
	return o.do(ctx, http.MethodPost, api.ServicesPath+"/"+url.PathEscape(service)+"/pause")
}

// Resume implements [top.Operator].
func (o *operator) Resume(ctx context.Context, service string) (string, error) {
	return o.do(ctx, http.MethodPost, api.ServicesPath+"/"+url.PathEscape(service)+"/resume")
}

// SetState implements [top.Operator]. It changes the configuration, as 'wsbouncer backend drain' does.
func (o *operator) SetState(ctx context.Context, backend, state string) (string, error) {
	store := remote.New(o.proxy, config.Options{Profiles: config.CheckProfiles})
	defer store.Close()
	_, err := store.Apply(ctx, config.Change{Who: whoami(), Why: fromTop, Mutations: []config.Mutation{{
		Verb: config.Set, Kind: config.KindBackend, Name: backend, Values: config.Values{"state": state},
	}}})
	if err != nil {
		return "", err
	}
	return "backend " + backend + ": " + state, nil
}
