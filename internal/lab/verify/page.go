package verify

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
)

// Page returns what was found as Markdown, for an issue: without the server's address, which may be nobody else's business. program is the version of
// the program that has tried it, and how its flags.
func (r *Report) Page(program, how string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s on a real server\n\n", r.Profile)
	fmt.Fprintf(&b, "- date: %s\n- program: wsbouncer %s\n- server: %s (please add product, version and model)\n- connections: %d in %s, with `%s`\n\n",
		r.At.Format(time.DateOnly), program, printable.Text(cmp.Or(r.Version, "does not name its version"), 200), r.Connections,
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), how)
	b.WriteString("| claim | the profile says | verdict | found |\n| --- | --- | --- | --- |\n")
	for _, c := range r.Claims {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Name, cell(c.Says), c.Verdict, cell(r.addresses.hide(c.Why)))
	}
	for _, c := range r.Claims {
		if c.Verdict != Fails || len(c.Evidence) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s does not hold\n\n", c.Name)
		for _, line := range c.Evidence {
			fmt.Fprintf(&b, "    %s\n", printable.Text(r.addresses.hide(line), 1000))
		}
	}
	return b.String()
}

// cell returns a text as it may stand in a table.
func cell(text string) string {
	return strings.ReplaceAll(printable.Text(text, 2000), "|", `\|`)
}
