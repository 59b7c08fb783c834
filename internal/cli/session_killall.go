package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// killAllFlags have all sessions of a backend ended.
type killAllFlags struct {
	backend string
	within  time.Duration
}

func (f *killAllFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.backend, "backend", "", "end all sessions of this backend")
	cmd.Flags().DurationVar(&f.within, "within", 30*time.Second, "time over which --backend spreads the ends of sessions, up to 1h; 0 for at once")
	completeFlag(cmd, "backend", config.KindBackend)
}

func (f *killAllFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.Flags().Changed("backend") && f.backend == "":
		return usageError(errors.New("--backend: the name is missing"))
	case f.backend != "" && len(args) > 0:
		return usageError(fmt.Errorf("%s takes either the ids of sessions or --backend", cmd.CommandPath()))
	case f.backend == "" && cmd.Flags().Changed("within"):
		return usageError(errors.New("--within works only with --backend"))
	case f.within < 0 || f.within > api.MaxKillTime:
		return usageError(fmt.Errorf("--within: invalid duration \"%v\": use 0 (at once) to 1h, such as 30s", f.within))
	}
	return nil
}

func (f *killAllFlags) run(cmd *cobra.Command, from *proxyFlags, order *orderFlags, yes bool) error {
	if err := confirm(cmd, yes, fmt.Sprintf("end all sessions of backend %s within %v", f.backend, f.within)); err != nil {
		return err
	}
	return from.use(func(proxy *client.Client) error {
		return order.do(cmd, proxy, http.MethodDelete, api.SessionsPath, url.Values{"backend": {f.backend}, "within": {f.within.String()}})
	})
}
