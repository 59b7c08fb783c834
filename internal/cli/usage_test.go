package cli

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A mistyped command or value is answered with the nearest one, and one that is like none with no guess.
func TestUnknownCommandsAndValues(t *testing.T) {
	alone(t)
	for says, args := range map[string][]string{
		`unknown command "sevice" for "wsbouncer": did you mean "service"?`:                  {"sevice"},
		`unknown command "servce" for "wsbouncer": did you mean "serve" or "service"?`:       {"servce"},
		`unknown command "esrvice" for "wsbouncer": did you mean "service"?`:                 {"esrvice", "ls"},
		`unknown command "lst" for "wsbouncer backend": did you mean "ls"?`:                  {"backend", "lst"},
		`unknown command "frobnicate" for "wsbouncer"` + "\n":                                {"frobnicate"},
		`unknown log level "verbos": use one of debug, info, warn, error` + "\n":             {"log", "level", "verbos"},
		`unknown log level "wran": did you mean "warn"? Use one of debug, info, warn, error`: {"log", "level", "wran"},
	} {
		if status, out, messages := command(args...); status != 2 || out != "" || !strings.Contains(messages, says) {
			t.Errorf("%v: status %d, printed %q, said\n%s\nwant 2,\n%s", args, status, out, messages, says)
		}
	}
}

// A mistyped flag is answered with the nearest one, in every command and for the flags of every command.
func TestUnknownFlags(t *testing.T) {
	alone(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"backend", "set", "gpu-1", "--conections", "3"}, "unknown flag --conections: did you mean --connections?"},
		{[]string{"backend", "set", "gpu-1", "--conections=3"}, "unknown flag --conections: did you mean --connections?"},
		{[]string{"backend", "add", "-connections", "3"}, "unknown flag -connections: did you mean --connections?"},
		{[]string{"serve", "--lisen", ":1"}, "unknown flag --lisen: did you mean --listen?"},
		{[]string{"backend", "ls", "--help-me-out-of-this"}, "unknown flag --help-me-out-of-this\n"},
		{[]string{"backend", "ls", "-z"}, "unknown flag -z\n"},
		{[]string{"backend", "ls", "-oz=3", "-z"}, `--output: invalid value "z=3": use one of table, wide, json, yaml, name`},
		{[]string{"--verion"}, "unknown flag --verion: did you mean --version?"},
	} {
		status, out, messages := command(c.args...)
		if status != 2 || out != "" || !strings.Contains(messages, c.says) {
			t.Errorf("%v: status %d, printed %q, said\n%s\nwant 2,\n%s", c.args, status, out, messages, c.says)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := command("version")
	status, out, messages := command("--version")
	if status != 0 || out != want || messages != "" {
		t.Errorf("--version: status %d, printed %q, said %q; want what 'version' prints: %q", status, out, messages, want)
	}
}

// What people of other tools type works as well.
func TestAliases(t *testing.T) {
	s := onDatabase(t).begin()
	for _, group := range []string{"service", "backend", "profile", "key"} {
		if s.must(group+" list") != s.must(group+" ls") {
			t.Errorf("%s list prints other things than ls", group)
		}
	}
	s.must("profile add mine --file "+s.write("from: vosk\n"), "profile delete mine", "backend remove gpu-1 --yes", "backend delete gpu-2 --yes", "service remove stt")
	if out := s.must("service ls"); strings.Contains(out, "stt") {
		t.Errorf("the service is still there:\n%s", out)
	}
}

// usageErrors has for each command the arguments of a call with each usage error; empty where a command cannot be called so. An
// unknown flag and an argument too many are errors in all of them.
var usageErrors = map[string]struct {
	tooMany, missing string // 2
	unknownName      string // 1: what the command is about is not there
	badValue         string // 2
}{
	"serve":                 {"x", "", "", "--connections x"},
	"init":                  {"ws://h x", "--connections 2", "", "ws://h --connections 0"},
	"demo":                  {"x", "", "", "--help=x"},
	"check":                 {"x", "", "", "--listen x"},
	"service":               {"x", "", "", "--help=x"},
	"service ls":            {"x", "", "", "--output x"},
	"service show":          {"stt x", "-o json", "nosuch", "stt -o x"},
	"service add":           {"x y", "--queue 1", "", "x --queue y"},
	"service set":           {"stt x --queue 1", "--queue 1", "nosuch --queue 1", "stt --balance x"},
	"service rm":            {"", "--dry-run", "nosuch", "stt --dry-run=x"},
	"service pause":         {"", "--why x", "", "stt --help=x"},
	"service resume":        {"", "--why x", "", "stt --help=x"},
	"backend":               {"x", "", "", "--help=x"},
	"backend ls":            {"x", "", "--service nosuch", "--selector =x"},
	"backend show":          {"gpu-1 x", "-o json", "nosuch", "gpu-1 -o x"},
	"backend add":           {"x ws://h y", "--weight 1", "", "x ws://h --connections y"},
	"backend set":           {"gpu-1 x --weight 1", "--weight 1", "nosuch --weight 1", "gpu-1 --state x"},
	"backend rm":            {"", "--dry-run", "nosuch", "gpu-1 -o x"},
	"backend drain":         {"", "--dry-run", "nosuch", "gpu-1 --wait --timeout 0s"},
	"backend enable":        {"", "--dry-run", "nosuch", "gpu-1 --wait --timeout x"},
	"backend disable":       {"", "--dry-run", "nosuch", "--selector =x"},
	"backend recycle":       {"", "--why x", "", "gpu-1 --selector zone=a"},
	"profile":               {"x", "", "", "--help=x"},
	"profile ls":            {"x", "", "", "-o x"},
	"profile show":          {"vosk x", "--effective", "nosuch", "vosk --effective=x"},
	"profile verify":        {"vosk x --backend ws://h --audio a.wav", "--backend ws://h", "nosuch --backend ws://h --audio a.wav", "vosk --backend ws://h --audio a.wav --sessions 0"},
	"profile add":           {"x y --file -", "--file -", "", "x --file - -o y"},
	"profile set":           {"x y --file -", "--file -", "", "x --file - -o y"},
	"profile rm":            {"", "--dry-run", "nosuch", "x -o y"},
	"tenant":                {"x", "", "", "--help=x"},
	"tenant ls":             {"x", "", "", "-o x"},
	"tenant show":           {"acme x", "-o json", "nosuch", "acme -o x"},
	"tenant add":            {"x y", "--share 2", "", "x --share 0"},
	"tenant set":            {"acme x --share 2", "--share 2", "nosuch --share 2", "acme --share much"},
	"tenant rm":             {"", "--dry-run", "nosuch", "acme --dry-run=x"},
	"key":                   {"x", "", "", "--help=x"},
	"key ls":                {"x", "", "", "-o x"},
	"key show":              {"phone x", "-o json", "nosuch", "phone -o x"},
	"key add":               {"x y", "--tenant a", "", "x --expires soon"},
	"key set":               {"phone x --tenant a", "--tenant a", "nosuch --tenant a", "phone --expires 0d"},
	"key revoke":            {"", "--dry-run", "nosuch", "phone --dry-run=x"},
	"config":                {"x", "", "", "--help=x"},
	"config show":           {"x", "", "", "-o x"},
	"config export":         {"x", "", "", "--help=x"},
	"config diff":           {"x y", "--prune", "", "x --prune=y"},
	"config apply":          {"x y", "--prune", "", "x --prune=y"},
	"config import":         {"x y", "--dry-run", "", "x --dry-run=y"},
	"config history":        {"x", "", "", "--limit 0"},
	"config rollback":       {"1 2", "--dry-run", "99", "1 --dry-run=x"},
	"config init":           {"x", "", "", "--force=x"},
	"settings":              {"x", "", "", "--help=x"},
	"settings show":         {"", "--settings=", "", "listn"},
	"audit":                 {"x", "", "", "--since x"},
	"reload":                {"x", "", "", "-o x"},
	"session":               {"x", "", "", "--help=x"},
	"session ls":            {"x", "", "", "--state x"},
	"session show":          {"x y", "-o json", "", "x -o name"},
	"session move":          {"x y", "--why x", "", "x --timeout 2h"},
	"session kill":          {"", "--yes", "", "x --yes=x"},
	"session tap":           {"x y", "", "", "x --text y"},
	"proxy":                 {"x", "", "", "--help=x"},
	"proxy ls":              {"x", "", "", "-o x"},
	"proxy show":            {"x y", "-o json", "", "x -o name"},
	"proxy forget":          {"x y", "--yes", "", "x --yes=x"},
	"problems":              {"x", "", "", "--since x"},
	"usage":                 {"x", "", "", "--by x"},
	"status":                {"x", "", "", "--interval 1s"},
	"upgrade":               {"x", "", "", "--timeout 0s"},
	"top":                   {"x", "", "", "--interval 1500ms"},
	"log":                   {"x", "", "", "--help=x"},
	"log level":             {"info warn", "--why x", "", "loud"},
	"migrate":               {"x", "", "", "--database mysql://h/x"},
	"sim":                   {"x", "", "", "--protocol x"},
	"bench":                 {"", "--rate 1", "", "ws://h --connections 0"},
	"calibrate":             {"", "ws://h --session x", "", "ws://h --audio a --most 0"},
	"version":               {"x", "", "", "--help=x"},
	"help":                  {"version x", "", "", "--help=x"},
	"completion":            {"x", "", "", "--help=x"},
	"completion bash":       {"x", "", "", "--no-descriptions=x"},
	"completion fish":       {"x", "", "", "--no-descriptions=x"},
	"completion zsh":        {"x", "", "", "--no-descriptions=x"},
	"completion powershell": {"x", "", "", "--no-descriptions=x"},
}

// The same error has the same exit status in every command.
func TestSameErrorSameStatus(t *testing.T) {
	s := onDatabase(t).begin()
	t.Setenv(databaseVariable, s.database)
	var all []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			all = append(all, strings.TrimPrefix(sub.CommandPath(), "wsbouncer "))
			walk(sub)
		}
	}
	walk(newRootCommand())
	if len(all) != len(usageErrors) {
		t.Errorf("%d commands, but the errors of %d", len(all), len(usageErrors))
	}
	for _, name := range all {
		c, ok := usageErrors[name]
		if !ok {
			t.Errorf("%s is not in the table", name)
			continue
		}
		for _, m := range []struct {
			what, args string
			status     int
		}{
			{"an unknown flag", "--nosuch", 2},
			{"an argument too many", c.tooMany, 2},
			{"a missing argument", c.missing, 2},
			{"an unknown name", c.unknownName, 1},
			{"a bad value", c.badValue, 2},
			{"a bad database", badDatabase(name), 2},
		} {
			if m.args == "" {
				continue
			}
			status, out, messages := command(append(strings.Fields(name), strings.Fields(m.args)...)...)
			if status != m.status || out != "" || !strings.HasPrefix(messages, "Error: ") {
				t.Errorf("%s: %s %s: status %d, printed %q, said %q; want status %d", m.what, name, m.args, status, out, messages, m.status)
			}
		}
	}
}

// badDatabase returns the arguments of an otherwise right call of a command with an invalid database; empty if it takes none.
func badDatabase(name string) string {
	right := map[string]string{
		"serve": " ", "check": " ", "migrate": " ", "service ls": " ", "service show": "stt", "service add": "x", "service set": "stt --queue 1",
		"service rm": "stt", "backend ls": " ", "backend show": "gpu-1", "backend add": "x ws://h --connections 8", "backend set": "gpu-1 --weight 1", "backend rm": "gpu-1",
		"backend drain": "gpu-1", "profile ls": " ", "profile show": "vosk", "profile rm": "x", "config show": " ", "config export": " ",
		"config history": " ", "config rollback": "1",
	}
	if right[name] == "" {
		return ""
	}
	return right[name] + " --database mysql://h/x"
}

// A spreadsheet takes no name for a formula, whoever chose it.
func TestUsageCSV(t *testing.T) {
	report, names := &api.UsageReport{}, []string{"acme", "=1+2", "+1", "-1", "@x", "\tx", `a,b"c`, ""}
	for i := range names {
		report.Rows = append(report.Rows, api.UsageRow{Tenant: &names[i]})
	}
	var out strings.Builder
	if err := printUsageCSV(&out, report, []string{"tenant"}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(lines) != 1+len(names) {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for i, want := range []string{"acme", "'=1+2", "'+1", "'-1", "'@x", "'\tx", `a,b"c`, ""} {
		if got := lines[1+i][0]; got != want {
			t.Errorf("%q is %q, want %q", names[i], got, want)
		}
	}
}
