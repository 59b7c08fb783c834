package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// allowedValues says, for the types of flags that pflag itself defines, what a value is and what it may be.
var allowedValues = map[string]struct{ what, use string }{
	"int":      {"number", "a whole number such as 100"},
	"int64":    {"number", "a whole number such as 100"},
	"uint64":   {"number", "a whole number from 0, such as 100"},
	"float64":  {"number", "a number such as 2.5"},
	"duration": {"duration", "a number with a unit, such as 500ms, 10s or 1m30s"},
	"bool":     {"value", "true or false"},
}

// flagError rewords an error in parsing flags in the form of all other errors: flag, value, what is allowed.
func flagError(flags *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(flags, unknown)
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	if allowed, ok := allowedValues[flag.Value.Type()]; ok {
		return fmt.Errorf("--%s: %w", flag.Name, value.Invalid(allowed.what, invalid.GetValue(), allowed.use))
	}
	return fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
}

// unknownFlag names the flag that a mistyped one most likely stands for.
func unknownFlag(flags *pflag.FlagSet, unknown *pflag.NotExistError) error {
	dashes, name := "--", unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" { // behind one dash, letters or a name that lacks the other dash
		dashes, name = "-", letters
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	text := "unknown flag " + dashes + name
	if near := spelling.Nearest(name, known); near != "" && len(name) > 1 {
		text += ": did you mean --" + near + "?"
	}
	return errors.New(text)
}
