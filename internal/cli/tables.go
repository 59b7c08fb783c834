package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/api"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
)

// table prints rows in columns below their heads. It shows empty cells as -.
func table(out io.Writer, heads []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, row := range rows {
		cells := slices.Clone(row)
		for i := range cells {
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// listing makes a command list entities: rows for people, or JSON for programs.
func listing(cmd *cobra.Command, list func(content *config.Content, now *api.Stats, programs bool) (heads []string, rows [][]string, all []json.RawMessage, err error)) {
	var from targetFlags
	var form output
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return from.use(cmd, false, func(t *target) error {
			v, err := t.view(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			heads, rows, all, err := list(&v.Content, t.running(cmd.Context(), cmd.ErrOrStderr()), form.json())
			switch {
			case err != nil:
				return err
			case form.json():
				return printJSON(cmd.OutOrStdout(), marked(all, v.Stale))
			}
			return table(cmd.OutOrStdout(), heads, rows)
		})
	}
	from.add(cmd)
	form.add(cmd, "table")
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
