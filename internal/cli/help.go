package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// mostHelpColumns is how wide help is at most: longer lines are hard to read.
const mostHelpColumns = 120

// helpColumns returns how many columns help has that is written to out.
func helpColumns(out io.Writer) int {
	columns, _ := terminalSize(out)
	return min(columns, mostHelpColumns)
}

// addGrouped adds commands to the root under a heading of its help.
func addGrouped(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading + ":"})
	for _, cmd := range commands {
		cmd.GroupID = heading
	}
	root.AddCommand(commands...)
}

// showHelp prints a command's help, wrapped to the terminal.
func showHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	columns := helpColumns(out)
	usage := cmd.UsageString()
	// The library wraps flags only for those who print them themselves.
	if flags := cmd.LocalFlags(); flags.HasAvailableFlags() {
		usage = strings.Replace(usage, strings.TrimSpace(flags.FlagUsages()), strings.TrimSpace(flags.FlagUsagesWrapped(columns)), 1)
	}
	fmt.Fprintf(out, "%s\n\n%s", wrapped(cmp.Or(cmd.Long, cmd.Short), columns), usage)
}

// wrapped returns a text in lines of so many columns. Lines that are indented stay as they are, and so do empty lines.
func wrapped(text string, columns int) string {
	var b strings.Builder
	column := 0 // 0 at the beginning of a line
	newline := func() {
		if column > 0 {
			b.WriteByte('\n')
			column = 0
		}
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \n")
		if line == "" || line[0] == ' ' {
			newline()
			b.WriteString(line + "\n")
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if column > 0 && column+1+len(word) > columns {
				newline()
			}
			if column > 0 {
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
