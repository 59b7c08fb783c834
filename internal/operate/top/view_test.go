package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

var update = flag.Bool("update", false, "write the golden frames anew")

// golden holds a frame against the file that has it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	var b strings.Builder
	for line := range strings.Lines(got) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	got = b.String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (write it anew with -update):\n%s\nwant\n%s", name, got, want)
	}
}

var sizes = []struct{ width, height int }{{40, 12}, {80, 24}, {120, 40}}

func TestFrames(t *testing.T) {
	for scene, play := range scenes {
		for _, size := range sizes {
			m := NewModel("10.0.0.1:9090", Style{Plain: true})
			m.Resize(size.width, size.height)
			play(m)
			golden(t, fmt.Sprintf("%s-%d", scene, size.width), m.View())
		}
	}
}

// What covers the panes.
func TestOverlays(t *testing.T) {
	for name, keys := range map[string][]string{
		"help":            {"?"},
		"service-details": {"1", "enter"},
		"backend-details": {"2", "enter"},
		"session-details": {"4", "enter"},
		"kill":            {"4", "down", "k"},
		"filter":          {"/", "g", "p", "u", "-", "2"},
	} {
		for _, size := range sizes[:2] {
			m := NewModel("10.0.0.1:9090", Style{Plain: true})
			m.Resize(size.width, size.height)
			playTrouble(m)
			for _, key := range keys {
				if o := m.Key(key); o.Verb == Show {
					detail := sessionDetail()
					detail.ID = o.Target
					m.Detail(o.Target, &detail, nil)
				}
			}
			golden(t, fmt.Sprintf("%s-%d", name, size.width), m.View())
		}
	}
}

// One frame as text has everything, without a cursor, and nothing that a terminal would act on.
func TestText(t *testing.T) {
	m := NewModel("10.0.0.1:9090", Style{Plain: true})
	m.Resize(100, 1)
	playTrouble(m)
	playTenants(m)
	paste := func(cure string) string { return cure + " --admin unix:/run/admin.sock" }
	text := m.Text(5, paste)
	golden(t, "once", text)
	if strings.ContainsRune(text, 0x1b) {
		t.Errorf("it has escape sequences: %q", text)
	}
	ascii := NewModel("10.0.0.1:9090", Style{Plain: true, ASCII: true})
	ascii.Resize(100, 1)
	playTrouble(ascii)
	playTenants(ascii)
	golden(t, "once-ascii", ascii.Text(5, paste))
	for _, whole := range []string{ // what is to be understood or pasted is not cut, however narrow the frame is
		"is not valid yet: clients refuse it", "    wsbouncer check --admin unix:/run/admin.sock", "q7m2kd4x-4186064984 ", "(globex)", "In parentheses: not configured",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.TrimSpace(whole)) {
			t.Errorf("it has no %q", whole)
		}
	}
	narrow := NewModel("10.0.0.1:9090", Style{Plain: true})
	narrow.Resize(80, 24)
	playTrouble(narrow)
	playTenants(narrow)
	if frame := narrow.View(); !strings.Contains(frame, "q7m2kd4x-4186064984 ") {
		t.Errorf("at 80 columns, the id is cut:\n%s", frame)
	}
	m = NewModel("10.0.0.1:9090", Style{Plain: true})
	m.Resize(80, 24)
	playTrouble(m)
	m.stats.Problems = m.stats.Problems[:0]
	playTenants(m)
	if line := m.header(1)[1]; !strings.Contains(line, "it is not valid yet") || !strings.Contains(line, "certificate.pem") {
		t.Errorf("the name of what is wrong hides what that is: %s", line)
	}
	// The sessions that wait for results for longest are at the top.
	if after := text[strings.LastIndex(text, "SESSION "):]; !strings.HasPrefix(strings.SplitN(after, "\n", 3)[1], "q7m2kd4x-1045") {
		t.Errorf("the session with the largest lag is not the first: %s", after)
	}
}

// Every frame fits every terminal, with colours or not, whatever is on it. What a client sends cannot control the terminal.
func TestFits(t *testing.T) {
	keys := []string{"", "?", "enter", "k", "/", "1", "2", "3", "d", "p", "end", "G", "s", "esc", "S", "r"}
	for scene, play := range scenes {
		for _, style := range []Style{{Colours: true}, {}, {Plain: true}, {Colours: true, ASCII: true}} {
			for _, width := range []int{1, 5, 19, 40, 59, 80, 300} {
				for _, height := range []int{1, 2, 4, 11, 20, 60} {
					m := NewModel("10.0.0.1:9090", style)
					m.Resize(width, height)
					play(m)
					for _, key := range keys {
						m.Key(key)
						lines := strings.Split(m.View(), "\n")
						if len(lines) > height {
							t.Fatalf("%s %dx%d after %q: %d lines", scene, width, height, key, len(lines))
						}
						for _, line := range lines {
							if w := ansi.StringWidth(line); w > width {
								t.Fatalf("%s %dx%d after %q: a line of %d columns: %q", scene, width, height, key, w, line)
							}
							if bare := ansi.Strip(line); strings.ContainsFunc(bare, func(r rune) bool { return r < ' ' || style.ASCII && r > 126 && r != 0xfffd }) {
								t.Fatalf("%s %dx%d after %q: %q", scene, width, height, key, line)
							}
							if strings.Contains(line, "\x1b[2J") || style.Plain && strings.Contains(line, "\x1b") {
								t.Fatalf("%s %dx%d after %q: the terminal would act: %q", scene, width, height, key, line)
							}
						}
					}
				}
			}
		}
	}
}

// Without colours, nothing has one.
func TestNoColours(t *testing.T) {
	m := NewModel("10.0.0.1:9090", Style{})
	playTrouble(m)
	rest := strings.NewReplacer("\x1b[m", "", "\x1b[1m", "", "\x1b[7m", "").Replace(m.View())
	if strings.Contains(rest, "\x1b") {
		t.Errorf("%q", rest)
	}
}

func TestBars(t *testing.T) {
	style := Style{Plain: true, ASCII: true}
	for _, c := range []struct {
		width, limit                   int
		leased, resetting, idle, other int
		want                           string
	}{
		{10, 10, 3, 1, 2, 0, "###%==...."},
		{10, 10, 0, 0, 0, 0, ".........."},
		{10, 10, 10, 0, 0, 0, "##########"},
		{10, 1000, 1, 1, 1, 1, "#%=-......"},
		{10, 1000, 997, 1, 1, 1, "#######%=-"},
		{4, 100, 90, 3, 3, 4, "#%=-"},
		{10, 5, 9, 0, 1, 0, "#########="}, // more than the cap: it was lowered
		{2, 10, 3, 1, 2, 0, "  "},
		{10, 0, 0, 0, 0, 0, "          "},
	} {
		got := style.bar(c.width, c.limit, []segment{{c.leased, busy, "█", "#"}, {c.resetting, warning, "▓", "%"}, {c.idle, good, "▒", "="}, {c.other, quiet, "░", "-"}})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
