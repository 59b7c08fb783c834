package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// asCSV is lines with commas, for spreadsheets and billing.
const asCSV = "csv"

func newUsageCommand() *cobra.Command {
	var from proxyFlags
	var form output
	var begin, end string
	by := api.UsageBy
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Report the audio and results that clients have used",
		Long: `Report what clients have used: sessions, seconds of audio, and results (messages of servers), by tenant, API key and
service. A proxy whose configuration is in a database books there, so the report is of all proxies that share it. The
report is of whole hours in UTC, and by default of this month. Usage is kept for 400 days.

~ marks audio whose duration is estimated by the size of the messages around it. Audio in an unknown or compressed
format has no duration: its bytes are given.`,
		Example: `  wsbouncer usage
  wsbouncer usage --from 2026-11 --to 2026-12 --by tenant --output csv
  wsbouncer usage --from 24h --by tenant,service`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := api.UsageQuery{By: by}
			for i, what := range by {
				if slices.Contains(by[:i], what) {
					return usageError(fmt.Errorf("--by: %s is named twice: name it once", what))
				}
				if !slices.Contains(api.UsageBy, what) {
					return usageError(fmt.Errorf("--by: %w", spelling.Unknown("column", what, api.UsageBy)))
				}
			}
			var err error
			if query.From, err = whenOf("from", begin, time.Now()); err != nil {
				return usageError(err)
			}
			if query.To, err = whenOf("to", end, time.Now()); err != nil {
				return usageError(err)
			}
			if !query.From.IsZero() && !query.To.IsZero() && !query.From.Before(query.To) {
				return usageError(fmt.Errorf("--from: %s is not before --to %s", begin, end))
			}
			return from.use(func(proxy *client.Client) error {
				var report api.UsageReport
				if err := proxy.Get(cmd.Context(), api.UsagePath, query.Values(), &report); err != nil {
					return err
				}
				if report.Problem != "" {
					fmt.Fprintln(cmd.ErrOrStderr(), "What clients use now is not saved:", report.Problem)
				}
				switch {
				case form.form == asCSV:
					return printUsageCSV(cmd.OutOrStdout(), &report, by)
				case form.forPrograms():
					return form.print(cmd.OutOrStdout(), report)
				}
				return showUsage(cmd.OutOrStdout(), &report, by)
			})
		},
	}
	cmd.Flags().StringVar(&begin, "from", "", "begin of the report: a month (2026-11), a day, a time, or a duration before now (24h); default this month's begin")
	cmd.Flags().StringVar(&end, "to", "", "end of the report, which is not included; default now")
	cmd.Flags().StringSliceVar(&by, "by", api.UsageBy, "what to report separately: tenant, key or service, with commas between them")
	from.add(cmd)
	form.add(cmd, "table", asCSV, asJSON, asYAML)
	return cmd
}

// names returns what a row is about.
func usageNames(r *api.UsageRow, by []string) (names []string) {
	for _, what := range by {
		name := map[string]*string{"tenant": r.Tenant, "key": r.Key, "service": r.Service}[what]
		if name == nil {
			name = new(string)
		}
		names = append(names, *name)
	}
	return names
}

// showUsage prints a report for people.
func showUsage(out io.Writer, report *api.UsageReport, by []string) error {
	var heads []string
	for _, what := range by {
		heads = append(heads, strings.ToUpper(what))
	}
	var cells [][]string
	for i := range report.Rows {
		r := &report.Rows[i]
		cells = append(cells, append(
			usageNames(r, by), strconv.FormatUint(r.Sessions, 10), audioText(r.AudioInSeconds, r.AudioInEstimatedSeconds, r.AudioInUnknownBytes),
			audioText(r.AudioOutSeconds, r.AudioOutEstimatedSeconds, r.AudioOutUnknownBytes), strconv.FormatUint(r.Results, 10),
		))
	}
	if err := table(out, append(heads, "SESSIONS", "AUDIO IN", "AUDIO OUT", "RESULTS"), cells); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "From %s to %s\n", report.From.Format(time.RFC3339), report.To.Format(time.RFC3339))
	return err
}

// formulas are the characters with which a spreadsheet takes a field for a formula.
const formulas = "=+-@\t\r"

// forSpreadsheets returns names that no spreadsheet takes for formulas: such a name, which only a token, a certificate or an authentication server can
// have given, gets an apostrophe before it.
func forSpreadsheets(names []string) []string {
	for i, name := range names {
		if name != "" && strings.Contains(formulas, name[:1]) {
			names[i] = "'" + name
		}
	}
	return names
}

// printUsageCSV prints a report as comma-separated values, with the names of the API.
func printUsageCSV(out io.Writer, report *api.UsageReport, by []string) error {
	w := csv.NewWriter(out)
	_ = w.Write(append(slices.Clone(by), // the writer keeps its error
		"sessions", "audio_in_seconds", "audio_in_estimated_seconds", "audio_in_unknown_bytes",
		"audio_out_seconds", "audio_out_estimated_seconds", "audio_out_unknown_bytes", "results", "bytes_from_clients", "bytes_from_backends"))
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for i := range report.Rows {
		r := &report.Rows[i]
		_ = w.Write(append(
			forSpreadsheets(usageNames(r, by)), count(r.Sessions), seconds(r.AudioInSeconds), seconds(r.AudioInEstimatedSeconds), count(r.AudioInUnknownBytes),
			seconds(r.AudioOutSeconds), seconds(r.AudioOutEstimatedSeconds), count(r.AudioOutUnknownBytes), count(r.Results),
			count(r.BytesFromClients), count(r.BytesFromBackends),
		))
	}
	w.Flush()
	return w.Error()
}

// audioText returns a duration of audio, with ~ if a part of it is estimated, and the size of what has no known duration; empty for nothing.
func audioText(seconds, estimated float64, unknown uint64) string {
	var parts []string
	if seconds > 0 {
		text := figures.Seconds(seconds)
		if estimated > 0 {
			text = "~" + text
		}
		parts = append(parts, text)
	}
	if unknown > 0 {
		parts = append(parts, figures.Bytes(float64(unknown))+" of unknown duration")
	}
	return strings.Join(parts, ", ")
}
