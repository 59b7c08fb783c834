package settings

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// TestTemplate reads the file that config init writes, as it is and with all settings made no comments.
func TestTemplate(t *testing.T) {
	text := string(Template())
	setting := regexp.MustCompile(`(?m)^#([a-z-]+:)`)
	if got := len(setting.FindAllString(text, -1)); got != len(table) {
		t.Errorf("there are %d settings in the file, of %d", got, len(table))
	}
	for _, content := range []string{text, setting.ReplaceAllString(text, "$1")} {
		l := given{file: content}.load(t)
		if !reflect.DeepEqual(l.Settings, Defaults()) {
			t.Errorf("settings that are not the defaults, %+v, of\n%s", l.Settings, content)
		}
	}
	l := given{file: setting.ReplaceAllString(text, "$1")}.load(t)
	for _, s := range all() {
		if l.Source(s.Name) == "" {
			t.Errorf("%s was not read", s.Name)
		}
		for _, part := range []string{s.Variable, s.Allowed, "--" + s.Name} {
			if !strings.Contains(text, part) {
				t.Errorf("the file does not have %q", part)
			}
		}
	}
}

// files are what the page explains once, below its tables.
var files = strings.NewReplacer("a list of "+tlsFiles, "files")

// TestDocs holds the tables of docs/reference/settings.md against the settings. Its output is what should stand there.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var usual, advanced strings.Builder
	for _, s := range all() {
		mark, rows := "", &usual
		if s.Live {
			mark = "*"
		}
		if IsAdvanced(s.Name) {
			rows = &advanced
		}
		allowed, _, _ := strings.Cut(files.Replace(s.Allowed), "; WSBOUNCER_") // where tokens may be is explained once, too
		standard := s.Default
		if standard == "none" && !strings.HasSuffix(allowed, ", or none") {
			standard = ""
		}
		fmt.Fprintf(rows, "| `%s`%s | %s | %s |\n", s.Name, mark, configtest.Documented(standard, allowed), configtest.Meaning(s.Help))
	}
	for _, rows := range []string{usual.String(), advanced.String()} {
		if !strings.Contains(string(data), rows) {
			t.Errorf("docs/reference/settings.md lacks the settings as they are:\n%s", rows)
		}
	}
	if example := string(Template()); !strings.Contains(string(data), FileVariable) || !strings.Contains(example, "docs/reference/settings.md") {
		t.Error("the file that config init writes and docs/reference/settings.md do not refer to one another")
	}
}

// TestTableIsComplete finds fields that the table does not have.
func TestTableIsComplete(t *testing.T) {
	typ := reflect.TypeOf(Settings{})
	if typ.NumField() != len(table) {
		t.Errorf("there are %d settings for %d fields", len(table), typ.NumField())
	}
	for i := range min(typ.NumField(), len(table)) {
		if got := strings.ReplaceAll(table[i].name, "-", ""); !strings.EqualFold(got, typ.Field(i).Name) {
			t.Errorf("the setting %s stands where the field %s does", table[i].name, typ.Field(i).Name)
		}
		if table[i].help == "" {
			t.Errorf("%s is not described", table[i].name)
		}
		if table[i].value.Text() == "" && table[i].unset == "" {
			t.Errorf("nothing says what holds when %s is empty", table[i].name)
		}
	}
}

func TestDefaultsInUse(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/state")
	s := Defaults()
	for got, want := range map[string]string{
		s.Directory(): "/state", s.DatabaseInUse(): "/state/wsbouncer.db", s.Socket(true): "/state/admin.sock", s.Socket(false): "",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	s.StateDirectory, s.Database = "/own", "postgres://a:s3cret@b/c"
	if s.Socket(true) != "/own/admin.sock" || s.DatabaseInUse() != s.Database || s.DatabaseShown() != "postgres://a:xxxxx@b/c" {
		t.Errorf("%q, %q, %q", s.Socket(true), s.DatabaseInUse(), s.DatabaseShown())
	}
	s.AdminSocket = "/run/x"
	if s.Socket(true) != "/run/x" || s.Socket(false) != "/run/x" {
		t.Errorf("%q, %q", s.Socket(true), s.Socket(false))
	}
	s.AdminSocket = Off
	if s.Socket(true) != "" || s.Socket(false) != "" {
		t.Errorf("%q, %q", s.Socket(true), s.Socket(false))
	}
}

// description describes one setting of the process.
type description struct {
	Name     string // of its flag and its key in the file
	Variable string // of the environment
	Help     string // what it is, one line
	Default  string // what holds when nothing is said: the value, or words
	Allowed  string // what may be said, in words
	Live     bool   // whether it can change while the process runs
}

// all returns all settings in the order in which they are shown.
func all() []description {
	var list []description
	for _, s := range table {
		list = append(list, description{s.name, Variable(s.name), s.help, s.shown(), s.value.Allowed(), s.live})
	}
	return list
}
