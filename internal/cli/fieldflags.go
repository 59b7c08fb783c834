package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// fieldFlags are flags for the fields of one kind of entity. They only keep what they are set to: set checks it, so that all
// errors are reported at once. An empty text is the field's default.
type fieldFlags struct {
	kind   config.Kind
	values config.Values // that were given

	argument, argumentOf string // the argument that a field was given as, and that field; empty for none
}

// newFieldFlags adds a flag for each field that people set and that is wanted; nil wants all.
func newFieldFlags(to *pflag.FlagSet, kind config.Kind, wanted func(field string) bool) *fieldFlags {
	f := &fieldFlags{kind: kind, values: make(config.Values)}
	for _, field := range config.Fields(kind) {
		if field.Recorded || wanted != nil && !wanted(field.Name) {
			continue
		}
		help := field.Help
		switch {
		case field.IsMap:
			help += " (repeat for several; NAME= removes one)"
		case field.IsList:
			help += " (separate several by commas, or repeat)"
		}
		if field.Type != "duration" && field.Type != "bool" {
			help += "; allowed: " + field.Allowed
		}
		flag := to.VarPF(&fieldFlag{field: field, values: f.values}, flagOf(field), "", help)
		if field.Type == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	return f
}

// usualFlags are the flags that the help of add and set shows first, of kinds with many fields.
var usualFlags = map[config.Kind][]string{
	config.KindService: {"path", "host", "profile", "queue", "queue-timeout", "auth", "failover", "dry-run", "why"},
	config.KindBackend: {"service", "connections", "warm", "weight", "label", "header", "tls-ca", "dry-run", "why"},
}

// addFieldFlags adds the flags for all fields of a kind to a command that changes the configuration.
func addFieldFlags(cmd *cobra.Command, kind config.Kind) *fieldFlags {
	cmd.Flags().SortFlags = false
	f := newFieldFlags(cmd.Flags(), kind, nil)
	removeFlags(cmd.Flags(), config.RemovedFields(kind))
	for _, field := range config.Fields(kind) {
		named := config.Kind(strings.TrimSuffix(field.Name, "s")) // such as a backend's service, or the services of a key
		if named == config.KindService || named == config.KindProfile {
			completeFlag(cmd, field.Name, named)
		}
	}
	if usual := usualFlags[kind]; len(usual) > 0 {
		shortenHelp(cmd, usual)
	}
	return f
}

// fromArgument sets a field from an argument of the command, which errors name instead of the flag.
func (f *fieldFlags) fromArgument(field, argument, value string) {
	f.values[field], f.argument, f.argumentOf = value, argument, field
}

// set sets the fields of an entity, which is created if there is none of that name. The error names each invalid value and its flag or
// argument.
func (f *fieldFlags) set(content *config.Content, name string) error {
	var errs []error
	for _, p := range content.Set(f.kind, name, f.values) {
		flag, _, _ := strings.Cut(p.Field, ".")
		for _, field := range config.Fields(f.kind) {
			if field.Name == flag {
				flag = flagOf(field)
			}
		}
		given := "--" + flag
		if p.Field == f.argumentOf {
			given = "argument " + f.argument
		}
		errs = append(errs, fmt.Errorf("%s: %s", given, p.Text))
	}
	return errors.Join(errs...)
}

// check returns what is wrong with the values by themselves, as a usage error.
func (f *fieldFlags) check() error {
	if err := expiring(f, time.Now()); err != nil { // of a key
		return err
	}
	scratch := config.NewContent()
	return usageError(f.set(&scratch, "x"))
}

// flagOf returns the name of a field's flag: that of the field, or for those that hold several, of one.
func flagOf(f config.Field) string {
	if f.IsMap {
		return strings.TrimSuffix(f.Name, "s")
	}
	return f.Name
}

// fieldFlag is the flag of one field.
type fieldFlag struct {
	field  config.Field
	values config.Values // of all flags
	list   []string      // given so far, of a field that holds several
	headerForm
}

// Set implements [pflag.Value].
func (f *fieldFlag) Set(text string) error {
	name := f.field.Name
	switch {
	case f.field.IsMap:
		key, value, ok := strings.Cut(text, "=")
		if name == "headers" || name == "set-header" {
			var old bool
			key, value, old, _ = headerPair(text)
			f.old = f.old || old
		}
		if !ok && !f.old || key == "" {
			return errors.New("invalid value: use NAME=VALUE, or NAME= to remove it") // it may be a secret, and is not shown
		}
		f.list = append(f.list, text)
		name, text = name+"."+key, value
	case f.field.IsList:
		if text != "" {
			f.list = append(f.list, strings.Split(text, ",")...)
		}
		text = config.ListText(f.list)
	}
	f.values[name] = text
	return nil
}

// String implements [pflag.Value].
func (f *fieldFlag) String() string {
	text, given := f.values[f.field.Name]
	switch {
	case f.field.IsList, f.field.IsMap:
		return strings.Join(f.list, ",")
	case given:
		return text
	}
	return f.field.Default
}

// Type implements [pflag.Value].
func (f *fieldFlag) Type() string {
	if f.field.IsMap {
		return "name=value"
	}
	return f.field.Type
}
