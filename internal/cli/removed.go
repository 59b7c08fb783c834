package cli

import "github.com/spf13/pflag"

// removeFlags adds hidden flags that fail, for those that earlier versions had: the errors say what to use instead. A flag of that name that
// means something else stays.
func removeFlags(from *pflag.FlagSet, instead map[string]error) {
	for name, err := range instead {
		if from.Lookup(name) == nil {
			from.Func(name, "", func(string) error { return err })
			from.Lookup(name).Hidden = true
		}
	}
}
