package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newProblemsCommand() *cobra.Command {
	var from proxyFlags
	var form listFlags
	var since string
	var limit int
	cmd := &cobra.Command{
		Use:   "problems",
		Short: "Show what is wrong with a running proxy, and what was",
		Long: `Show what is wrong with a running proxy, and what was: what lasts first, and then what has ended, with what began last
first. The proxy keeps the last thousand problems, also over restarts if it has a state directory.

HURTS is whom a problem hurts: clients now, clients-soon (if it stays, or one more thing fails), or only the
operator. KIND is explained in docs/troubleshoot.md.

--since leaves out what had ended by then. Times without a zone are in UTC, as in everything that is printed.`,
		Example: `  wsbouncer problems
  wsbouncer problems --since 03:00
  wsbouncer problems --since 2h --output wide
  wsbouncer problems --output json | jq '.past[] | select(.service == "stt")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError(fmt.Errorf("--limit: invalid number \"%d\": use a whole number from 0, which is for all", limit))
			}
			after, err := whenOf("since", since, time.Now())
			if err != nil {
				return usageError(err)
			}
			return from.use(func(proxy *client.Client) error {
				return form.run(cmd, func(messages io.Writer) (*rows, error) {
					list, err := readProblems(cmd.Context(), proxy, after)
					if err != nil {
						return nil, err
					}
					if list.Unsaved != "" {
						fmt.Fprintf(messages, "What was wrong cannot be written to disk: %s\n", list.Unsaved)
					}
					sayMissing(messages, list.Missing)
					shown := from.curesAt(cmd, proxy)
					if form.output.form == asWide && shown.note != "" && len(list.Problems) > 0 {
						fmt.Fprintln(messages, shown.note)
					}
					return problemRows(list, limit, time.Now(), shown), nil
				})
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only problems that lasted at this time or later: a time of today or yesterday (03:00), a time (2026-11-27T03:00:00Z), or a duration (2h)")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of problems to show that have ended; 0 for all")
	from.add(cmd)
	from.addLocal(cmd)
	form.output.add(cmd, "table", asWide, asJSON, asYAML)
	form.addWatch(cmd)
	return cmd
}

// whenOf returns the time that the text of a flag means; zero for an empty one.
func whenOf(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	now = now.UTC()
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, strings.TrimSuffix(text, "Z")); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly, "2006-01"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s: invalid time %q: use a time such as 03:00 or 2026-11-27T03:00:00Z, a day or month such as 2026-11-27 or 2026-11, or a duration such as 2h", flag, text)
}

// readProblems reads what is wrong, and what was at a time or later.
func readProblems(ctx context.Context, proxy *client.Client, after time.Time) (*api.ProblemList, error) {
	list := new(api.ProblemList)
	if err := proxy.Get(ctx, api.ProblemsPath, nil, list); err != nil {
		return nil, err
	}
	list.Past = slices.DeleteFunc(list.Past, func(p api.PastProblem) bool { return p.Ended.Before(after) })
	return list, nil
}

// problemRows has a row for each problem: what lasts, and then what has ended.
func problemRows(list *api.ProblemList, limit int, now time.Time, cures *cures) *rows {
	r := &rows{heads: []string{"SINCE", "LASTED", "LEVEL", "HURTS", "KIND", "WHAT", "EVIDENCE", "CURE"}, wide: 1, all: list}
	row := func(p *api.Problem, lasted string) {
		r.cells = append(r.cells, []string{clock(p.Since.Truncate(time.Second)), lasted, p.Level, p.Hurts, p.Kind, p.What, p.Text + seenBy(p), cures.show(p.Cure)})
	}
	for i := range list.Problems {
		p := &list.Problems[i]
		row(p, cmp.Or(figures.Since(p.Since, now), "0s")+", still")
	}
	shown := len(list.Past)
	if limit > 0 {
		shown = min(shown, limit)
	}
	for i := range list.Past[:shown] {
		p := &list.Past[i]
		row(&p.Problem, figures.Seconds(p.Ended.Sub(p.Since).Seconds()))
	}
	switch more := len(list.Past) - shown; {
	case more > 0:
		r.note = fmt.Sprintf("and %d more (--limit 0)", more)
	case len(r.cells) == 0:
		r.note = "No problems."
	}
	return r
}

// seenBy says which proxies of a fleet see a problem; empty outside of a fleet.
func seenBy(p *api.Problem) string {
	const most = 3
	names := p.Proxies
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return " (seen by " + strings.Join(names, ", ") + ")"
}
