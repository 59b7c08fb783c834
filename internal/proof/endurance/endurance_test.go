//go:build linux

package endurance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// The proof in short: a run that is interrupted continues in its directory, everything happens, and all figures are sampled. A leak is found that is planted
// into its samples.
func TestShort(t *testing.T) {
	o := Options{
		Binary: program, Duration: time.Hour, Tolerance: 1e6, Rate: 10, Sessions: 4, Directory: t.TempDir(), Out: t.Output(),
		Sample: 200 * time.Millisecond, Kill: 2 * time.Second, Reload: 2 * time.Second, Rotate: 4 * time.Second, Restart: 5 * time.Second, Upgrade: 6 * time.Second,
	}
	records := func() []record {
		t.Helper()
		all, err := readRecords(o.recordFile())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	interrupted := o
	interrupted.Out = io.MultiWriter(t.Output(), awaiting{"Upgraded: ", interrupt})
	if err := Run(ctx, interrupted); errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	} else if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	before := records()
	from := before[len(before)-1].Hours
	o.Duration = time.Duration(from*float64(time.Hour)) + 10*time.Second
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	all := records()
	if next := all[len(before)]; next.Hours < from || next.Hours > from+0.1 {
		t.Errorf("continued at %v hours; want a little more than %v", next.Hours, from)
	}
	values, count, last := make(map[string]float64), make(map[string]int), all[len(all)-1]
	for _, r := range all {
		for name, v := range r.Values {
			values[name] = max(values[name], v)
		}
		for what, n := range r.Count {
			count[what] += n
		}
	}
	for _, f := range figures {
		if values[f.name] == 0 {
			t.Errorf("%s was not sampled", f.name)
		}
	}
	for _, what := range []string{
		"sessions that came", "sessions that moved among servers", "servers killed", "reloads", "replacements of keys and certificates",
		"restarts of PostgreSQL", "upgrades",
	} {
		if count[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
	text, err := os.ReadFile(o.file("report.md"))
	if err != nil || !strings.Contains(string(text), "![log, MiB](plot-7.svg)") {
		t.Errorf("%v in the report\n%s", err, text)
	}

	file, err := os.OpenFile(o.recordFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		last.Hours, last.Values = last.Hours+0.01, map[string]float64{stateFiles: 1e6 * float64(i)}
		line, _ := json.Marshal(last)
		fmt.Fprintf(file, "\n%s", line)
	}
	fmt.Fprint(file, "\n{\"hours\": 99, \"val") // a crash
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), stateFiles+": grows over the run by ") {
		t.Errorf("with a planted leak: %v", err)
	}
}

// awaiting calls do when a text is written.
type awaiting struct {
	text string
	do   func()
}

func (a awaiting) Write(b []byte) (int, error) {
	if strings.Contains(string(b), a.text) {
		a.do()
	}
	return len(b), nil
}
