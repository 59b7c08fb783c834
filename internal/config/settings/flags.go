package settings

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// settingsFlag is the flag that names the file, and configFlag is what it was called.
const (
	settingsFlag = "settings"
	configFlag   = "config"
)

// Flags are the flags for all settings, and the flag that names the file. They only store their values: [Sources.Load] checks them,
// so that all errors are reported together.
type Flags struct {
	file   string
	set    *pflag.FlagSet
	values []*flagValue
}

// Add adds the flags to a command's.
func (f *Flags) Add(to *pflag.FlagSet) {
	f.set = to
	to.StringVar(&f.file, settingsFlag, "", "YAML file with settings (default: "+FileVariable+", or none)")
	to.StringVar(&f.file, configFlag, "", "")
	to.Lookup(configFlag).Hidden = true
	for i := range table {
		v := &flagValue{setting: &table[i]}
		f.values = append(f.values, v)
		to.Var(v, v.setting.name, v.setting.usage())
	}
}

func (f *Flags) given(name string) bool { return f.set != nil && f.set.Changed(name) }

// flags applies the settings of the flags.
func (l *loading) flags(f *Flags) {
	for _, v := range f.values {
		if name := v.setting.name; f.given(name) {
			l.set(find(l.rows, name), "--"+name, "--"+name+": ", v.texts)
		}
	}
}

// usage returns the setting's line of help.
func (s *setting) usage() string {
	text := s.help
	if s.isList() {
		text += " (repeat for several)"
	}
	if value.Kind(s.value) != "duration" {
		text += ": " + s.value.Allowed()
	}
	if s.unset != "" {
		text += " (default: " + s.unset + ")"
	}
	if s.deprecated != "" {
		text += " (deprecated: " + s.deprecated + ")"
	}
	return text
}

// flagValue is one flag. It stores its texts unchecked.
type flagValue struct {
	setting *setting
	texts   []string
}

// Set implements [pflag.Value]: several texts for a list, the last one for others.
func (v *flagValue) Set(text string) error {
	if !v.setting.isList() {
		v.texts = nil
	}
	v.texts = append(v.texts, text)
	return nil
}

// String implements [pflag.Value].
func (v *flagValue) String() string {
	if v.setting == nil { // pflag asks a zero value
		return ""
	}
	texts := v.texts
	if texts == nil {
		texts = config.ListOf(v.setting.value.Text())
		if !v.setting.isList() {
			texts = []string{v.setting.value.Text()}
		}
	}
	return strings.Join(texts, ",")
}

// Type implements [pflag.Value].
func (v *flagValue) Type() string { return value.Kind(v.setting.value) }
