package cli

import "github.com/spf13/pflag"

// removeFlags adds hidden flags that fail, for those that earlier versions had: the errors say what to use instead. A flag of that name that
// means something else stays.
func removeFlags(from *pflag.FlagSet, instead map[string]error) {
	for name, err := range instead {
		if from.Lookup(name) == nil {
			from.VarPF(removedFlag{err}, name, "", "").Hidden = true
		}
	}
}

// removedFlag is a flag that earlier versions had.
type removedFlag struct{ instead error }

// Set implements [pflag.Value].
func (f removedFlag) Set(string) error { return f.instead }

// String implements [pflag.Value].
func (f removedFlag) String() string { return "" }

// Type implements [pflag.Value].
func (f removedFlag) Type() string { return "string" }
