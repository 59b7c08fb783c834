package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// Every list has the same forms, and YAML says what JSON says, in the same order.
func TestForms(t *testing.T) {
	s := onDatabase(t).begin()
	s.must("profile add mine --file " + s.write("from: vosk\n"))
	for list, names := range map[string]string{
		"service ls":               "stt\n",
		"backend ls":               "gpu-1\ngpu-2\n",
		"backend ls -l zone=b":     "gpu-2\n",
		"config history --limit 2": "5\n4\n",
	} {
		if got := s.must(list + " -o name"); got != names {
			t.Errorf("%s -o name: %q, want %q", list, got, names)
		}
		if table, wide := s.must(list), s.must(list+" -o wide"); !strings.HasPrefix(strings.Fields(wide)[0], strings.Fields(table)[0]) {
			t.Errorf("%s -o wide:\n%s", list, wide)
		}
		asJSON, asYAML := s.must(list+" -o json"), s.must(list+" -o yaml")
		var a, b any
		if err := json.Unmarshal([]byte(asJSON), &a); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(asYAML), &b); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(b) // YAML has more types of numbers and times
		if err != nil {
			t.Fatal(err)
		}
		b = nil
		if err := json.Unmarshal(again, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: YAML says other things than JSON: %v\n%s\n%s", list, err, asYAML, asJSON)
		}
	}
	if out := s.must("backend ls -o yaml"); !strings.HasPrefix(out, "- name: gpu-1\n  service: stt\n  url: ws://10.0.0.5:2700\n") || strings.Contains(out, "{\"") {
		t.Errorf("YAML:\n%s", out)
	}
	s.refuse(
		refusal{[]string{"service", "ls", "--watch"}, 2, "--watch draws on a terminal, but standard output is none"},
		refusal{[]string{"service", "ls", "--watch", "-o", "json"}, 2, "--watch is for people: it does not work with --output json"},
		refusal{[]string{"service", "ls", "--watch", "--interval", "1ms"}, 2, `--interval: invalid duration "1ms": use a duration from 100ms to 1h`},
		refusal{[]string{"service", "ls", "--interval", "1s"}, 2, "--interval works only with --watch"},
		refusal{[]string{"backend", "show", "gpu-1", "-o", "name"}, 2, `--output: invalid value "name": use one of table, json, yaml`},
	)
}

// YAML keeps the types of texts that look like something else.
func TestYAMLTypes(t *testing.T) {
	var b bytes.Buffer
	value := map[string]any{"a": "true", "b": "1", "c": "", "d": "x: y # z", "e": []string{}, "f": "two\nlines", "g": "~"}
	if err := printYAML(&b, value); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range value {
		if text, ok := want.(string); ok && got[key] != text {
			t.Errorf("%s: %#v, want %#v", key, got[key], text)
		}
	}
}

// Colours go to terminals only, and do not move columns.
func TestColours(t *testing.T) {
	rows := [][]string{{"gpu-1", "healthy", "a"}, {"gpu-2", "unreachable: refused", "b"}}
	heads := []string{"NAME", "HEALTH", "LABELS"}
	var plainly, inColour bytes.Buffer
	if err := errors.Join(table(&plainly, heads, rows), table(painted{&inColour, true}, heads, rows)); err != nil {
		t.Fatal(err)
	}
	const want = "NAME   HEALTH                LABELS\ngpu-1  healthy               a\ngpu-2  unreachable: refused  b\n"
	if plainly.String() != want {
		t.Errorf("got\n%s", plainly.String())
	}
	stripped := inColour.String()
	for _, code := range []string{bold, red, green, plain} {
		if !strings.Contains(stripped, code) {
			t.Errorf("%q is missing in %q", code, inColour.String())
		}
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	if stripped != want {
		t.Errorf("without its colours:\n%s", stripped)
	}
}

// A watcher draws in the same place, says when the proxy does not answer and keeps what it has, and ends when it is interrupted.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		n := 0
		w := watcher{
			out: &out, size: func() (int, int) { return 30, 6 }, interval: 2 * time.Second, title: "wsbouncer x ls",
			draw: func(out, messages io.Writer) error {
				n++
				switch n {
				case 2:
					_, _ = io.WriteString(messages, "stale\n")
				case 3:
					return &client.UnreachableError{Address: "x", Reason: errors.New("refused")}
				case 4:
					cancel()
				}
				_, _ = io.WriteString(out, strings.Repeat("a line that is much longer than the screen\n", 5*(n-1))+"end\n")
				return nil
			},
		}
		began := time.Now()
		if err := w.run(ctx); err != nil || time.Since(began) != 6*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		frames := strings.Split(out.String(), "\x1b[H")
		if len(frames) != 4 || frames[0] != "\x1b[2J" {
			t.Fatalf("%d frames: %q", len(frames), frames)
		}
		for i, want := range [][]string{
			{"wsbouncer x ls, every 2s: 00:…", "end"},
			{"wsbouncer x ls, every 2s: 00:…", "stale", "a line that is much longer th…", "a line that is much longer th…", "... and 4 more lines"},
			{"wsbouncer x ls, every 2s: 00:…", "no proxy answers at x: refuse…", "a line that is much longer th…", "a line that is much longer th…", "... and 4 more lines"},
		} {
			if got := strings.Join(want, "\x1b[K\n") + "\x1b[K\n\x1b[J"; frames[i+1] != got {
				t.Errorf("frame %d: %q, want %q", i, frames[i+1], got)
			}
		}
	})
	failing := watcher{out: io.Discard, interval: time.Second, draw: func(io.Writer, io.Writer) error { return errors.New("no such service") }}
	if err := failing.run(t.Context()); err == nil || err.Error() != "no such service" {
		t.Errorf("a list that cannot be: %v", err)
	}
}
