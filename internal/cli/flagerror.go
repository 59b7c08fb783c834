package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// allowedValues says, for flags whose type is pflag's own, what their value may be.
var allowedValues = map[string]string{
	"int":      "a whole number; allowed are numbers such as 100",
	"int64":    "a whole number; allowed are numbers such as 100",
	"uint64":   "a whole number from 0; allowed are numbers such as 100",
	"float64":  "a number; allowed are numbers such as 2.5",
	"duration": "a duration; allowed are numbers with their unit, such as 500ms, 10s or 1m30s",
	"bool":     "true or false",
}

// flagError makes an error in parsing flags name the flag, its value and what is allowed, as all others do.
func flagError(flags *pflag.FlagSet, err error) error {
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		return unknownFlag(flags, unknown)
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	if allowed, ok := allowedValues[flag.Value.Type()]; ok {
		return fmt.Errorf("--%s: %q is not %s", flag.Name, invalid.GetValue(), allowed)
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
