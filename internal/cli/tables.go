package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// longestCell is how much of a text a table shows at most, in bytes.
const longestCell = 1000

// table prints rows in columns below their heads. It shows empty cells as -. On a terminal, what is wrong has a colour.
func table(out io.Writer, heads []string, rows [][]string) error {
	all := [][]string{heads}
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, cell := range row {
			safe[i] = printable.Text(cell, longestCell)
		}
		all = append(all, safe)
	}
	widths := make([]int, len(heads))
	for _, row := range all {
		for i, cell := range row[:min(len(row), len(heads))] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cmp.Or(cell, "-")))
		}
	}
	colours := colours(out)
	var b strings.Builder
	for n, row := range all {
		for i, cell := range row {
			cell = cmp.Or(cell, "-")
			last := i == len(row)-1
			pad := ""
			if !last && i < len(widths) {
				pad = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			switch {
			case colours && n == 0:
				cell = paint(bold, cell)
			case colours:
				cell = paint(colourOf(heads[min(i, len(heads)-1)], cell), cell)
			}
			b.WriteString(cell + pad)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// colourOf returns the colour of a cell; empty for none.
func colourOf(head, cell string) string {
	switch head {
	case "HEALTH", "STATE", "VERDICT":
	default:
		return ""
	}
	switch cell, _, _ := strings.Cut(cell, ":"); cell {
	case "circuit open", "unreachable", "probe fails", "canary fails", "stalled", "outlier", api.Hung, "flapping", "not usable", "down", "queue full", "stale", "copied", api.ProxyUnseen, tooLittle:
		return red
	case "circuit half-open", "draining", "disabled", "paused", "slow", "full", "no place", "no weight", "degraded", "clients wait", "nearly full", api.StateWaiting, api.StateMoving, api.StateParked:
		return yellow
	case api.Healthy, "up", enough:
		return green
	}
	return ""
}

// listing makes a command list entities of the configuration. runs says that it shows what running proxies say about them.
func listing(cmd *cobra.Command, runs bool, list func(t *target, content *config.Content, messages io.Writer) (*rows, []json.RawMessage, error)) {
	var from targetFlags
	var form listFlags
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return from.use(cmd, false, func(t *target) error {
			return form.run(cmd, func(messages io.Writer) (*rows, error) {
				v, err := t.view(cmd.Context(), messages)
				if err != nil {
					return nil, err
				}
				r, all, err := list(t, &v.Content, messages)
				if err != nil {
					return nil, err
				}
				r.all = marked(all, v.Stale)
				return r, nil
			})
		})
	}
	from.add(cmd)
	if runs {
		from.addLocal(cmd)
	}
	form.add(cmd)
}

// showFields prints all fields of an entity; those in brackets have their default.
func showFields(out io.Writer, kind config.Kind, values config.Values) error {
	var rows [][]string
	for _, f := range config.Fields(kind) {
		text, isSet := values[f.Name]
		switch {
		case !isSet && f.Default == "":
			text = ""
		case !isSet:
			text = "(" + f.Default + ")"
		case f.IsMap:
			text = pairs(text)
		case f.IsList:
			text = strings.Join(config.ListOf(text), ", ")
		}
		rows = append(rows, []string{f.Name, text})
	}
	return table(out, []string{"FIELD", "VALUE"}, rows)
}

// pairs returns a map's text as people read it: zone=a, rack=3.
func pairs(text string) string {
	entries := config.MapOf(text)
	var all []string
	for key, value := range entries {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// marked returns entities for JSON, each with a mark if the configuration is stale.
func marked(all []json.RawMessage, stale *remote.Stale) []json.RawMessage {
	if stale == nil {
		return all
	}
	text, err := json.Marshal(stale)
	if err != nil {
		panic(err) // a time and a text can always be encoded
	}
	to := make([]json.RawMessage, len(all))
	for i, entity := range all {
		to[i] = fmt.Appendf(nil, `%s,"stale":%s}`, entity[:len(entity)-1], text)
	}
	return to
}

// named returns an entity for JSON: its name, its fields, and more.
func named(kind config.Kind, name string, values config.Values, more map[string]any) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"name":`)
	text, err := json.Marshal(name)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	b.Write(text)
	if fields := config.JSON(kind, values, true); len(fields) > len("{}") {
		b.WriteByte(',')
		b.Write(fields[1 : len(fields)-1])
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		value, err := json.Marshal(more[key])
		if err != nil {
			panic(err) // of this package's own types
		}
		fmt.Fprintf(&b, ",%q:%s", key, value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
