package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// program is a wsbouncer with a proxy that runs until it is interrupted.
const program = `#!/bin/sh
case $1 in
serve) trap 'echo interrupted; exit 0' INT; echo "time=2026-01-02T03:04:05.678Z level=INFO msg=listening address=127.0.0.1:43210"
	touch ready; while :; do sleep 0.05; done ;;
session) test -e ready && echo "ID        AGE" && echo "$2 abcdefgh-123456789  1m2s" && date +%s%N ;;
key) echo "Key: wsb_abcdefghijklmnopqrstuvwxyz234567abcdef" ;;
esac
`

const transcripts = "# A page\n\nIn a terminal:\n\n" + `<!-- run: mkdir new && cd new -->

    $ wsbouncer serve
    time=2027-11-12T13:14:15.016Z level=INFO msg=listening address=127.0.0.1:55555

<!-- file: poem.txt -->

` + "```\nroses\nviolets\n```" + `

In another one:

    $ wsbouncer session ls
    ID                   AGE
    ls  xxxxxxxx-987654321   5.1s
    ...
    $ echo xxxxxxxx-987654321 | tr a-h A-H    # comment
    ABCDEFGH-123456789
    $ wsbouncer key add
    Key: wsb_zyxwvutsrqponmlkjihgfedcba765432zyxwvu
    $ export KEY=wsb_...
    $ (sleep 0.1; echo "late words of ${KEY#wsb_abcdefghijklmnopqrstuvwxyz}") &
    late words of 234567abcdef
    $ head poem.txt <<'END' && \
      ls poem.txt
    $ no command
    END
    roses
    ...
    poem.txt
    $ printf '1.5 MiB in 3ms\n\nbelow an empty line\n'
    7 KiB in 250µs

    below ...

A log:

    level=INFO msg=listening

<!-- not run: needs another world -->

    $ exit 7
    nothing

<!-- run if: false -->

    $ exit 8
    nothing

In the first, press Ctrl-C, then:

    $ cd .. && rm -r new; pwd
    /.../work
`

// checked checks a page. It returns what is printed, and whether the page is true.
func checked(t *testing.T, text string) (output string, ok bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wsbouncer")
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := check(t.Context(), &out, "page.md", text, path, 30*time.Second)
	return out.String(), err == nil
}

// A page whose transcripts are true has no problems, and the summary counts what was done.
func TestTrue(t *testing.T) {
	output, ok := checked(t, transcripts)
	const summary = "page.md: 10 commands run, 9 outputs compared, 1 of 7 blocks marked as not run\n"
	if !ok || !strings.Contains(output, "left out, because this fails: false\n") || !strings.HasSuffix(output, summary) {
		t.Errorf("it printed:\n%s\nwant no problem and:\n%s", output, summary)
	}
}

// A page may be marked as a whole.
func TestPageNotRun(t *testing.T) {
	output, ok := checked(t, "# A page\n\n<!-- page not run: needs another world -->\n\n    $ exit 1\n\nText\n\n    $ exit 2\n")
	const want = "page.md: 0 commands run, 0 outputs compared, 2 of 2 blocks marked as not run\n"
	if !ok || output != want {
		t.Errorf("it printed:\n%s\nwant no problem and:\n%s", output, want)
	}
}

// Each difference is found, in its line, and nothing else.
func TestDifferences(t *testing.T) {
	text := transcripts
	for _, planted := range []struct{ is, becomes string }{
		{"ABCDEFGH-123456789", "ABCDEFGH-123456780"},
		{"$ export KEY=wsb_...", "$ export KEY=wsb_...; false"},
		{"    ...\n    poem.txt\n", ""},
		{"7 KiB in", "7 KiB of"},
		{"<!-- run if: false -->\n\n    $ exit 8", "A block:\n\n    $ (exit 8)"},
		{"/.../work", "/.../works"},
	} {
		if !strings.Contains(text, planted.is) {
			t.Fatalf("the page has no %q", planted.is)
		}
		text = strings.Replace(text, planted.is, planted.becomes, 1)
	}
	const want = `page.md:24: shown:
        ABCDEFGH-123456780
    printed:
        ABCDEFGH-123456789
page.md:27: exit status 1:
page.md:34: more is printed than is shown:
        roses
        violets
        poem.txt
page.md:36: shown:
        7 KiB of 250µs
    printed:
        1.5 MiB in 3ms
        below an empty line
page.md:52: shown:
        nothing
    printed:
page.md:57: shown:
        /.../works
    printed:
        FOLDER/work
page.md: 11 commands run, 10 outputs compared, 1 of 7 blocks marked as not run
`
	output, ok := checked(t, text)
	output = regexp.MustCompile(`/\S+/work\n`).ReplaceAllString(output, "FOLDER/work\n")
	if ok || output != want {
		t.Errorf("it printed:\n%s\nwant:\n%s", output, want)
	}
}

// countedContext ends after some looks at it.
type countedContext struct {
	context.Context
	looks int
}

func (c *countedContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// What a command before has printed is found, and nothing else.
func TestFind(t *testing.T) {
	output := filepath.Join(t.TempDir(), "output")
	if err := os.WriteFile(output, []byte("first\ntime=1 level=INFO msg=\"second 5ms\" id=1\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &reader{outputs: []string{output}}
	for text, want := range map[string]bool{`level=INFO msg="second 7s"`: true, "msg=...\nthird": true, "first\nthird": false, "fourth": false} {
		looks := &countedContext{t.Context(), 2}
		if problem := r.find(looks, strings.Split(text, "\n")); (problem == "") != want {
			t.Errorf("%q: %s", text, problem)
		}
	}
}
