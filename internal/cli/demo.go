package cli

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/lab/demo"
)

func newDemoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demonstration with simulated servers and clients that stream speech",
		Long: `Run three simulated inference servers, the proxy in front of them, and clients that
stream speech through it in real time and get transcripts back, all in one process.

The "transcripts" say how long and how loud the sounds in the audio were. So the same
audio has the same transcript, and another client's audio would be noticed.

The demonstration ends on Ctrl-C, after --duration, or after DEMO_SECONDS seconds if this
environment variable is set. The exit status is 1 if any stream failed or was mixed up.`,
		Example: `  wsbouncer demo
  wsbouncer demo --clients 200 --duration 30s`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text := os.Getenv("DEMO_SECONDS"); text != "" && !cmd.Flags().Changed("duration") {
				seconds, err := strconv.ParseFloat(text, 64)
				if err != nil || seconds <= 0 || seconds > 1e6 {
					return usageError(fmt.Errorf("DEMO_SECONDS: invalid number %q: use a number of seconds above 0", text))
				}
				o.Duration = time.Duration(seconds * float64(time.Second))
			}
			if err := o.Validate(); err != nil {
				return usageError(err)
			}
			o.Version, o.Program = buildVersion(), os.Args[0]
			o.Out = cmd.OutOrStdout()
			o.Terminal = isTerminal(o.Out)
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			return demo.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Clients, "clients", 24, "clients that stream at the same time")
	f.IntVar(&o.Servers, "servers", 3, "simulated servers")
	f.DurationVar(&o.Duration, "duration", 0, "end after this time; 0 for never")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the proxy; port 0 chooses a free one")
	f.StringVar(&o.Admin, "admin", "127.0.0.1:0", "address of the admin API; port 0 chooses a free one")
	return cmd
}
