// Command docscheck runs the commands of README.md and the handbook (docs/*.md), and compares what they print with what the pages show. It reads
// each page from top to bottom, as a user does, in a new folder, and in a second terminal as soon as a proxy occupies the first. A command whose
// output is not shown must succeed. Comments in the pages name what is not run, and what else is: see markup. `make docs-check` runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	program := flag.String("program", "bin/wsbouncer", "the program that pages call wsbouncer")
	flag.Parse()
	ownNetwork()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	files := flag.Args()
	if len(files) == 0 {
		files, _ = filepath.Glob("docs/*.md")
		files = append([]string{"README.md"}, files...)
	}
	path, failed := filepath.Abs(*program)
	for _, file := range files {
		text, err := os.ReadFile(file)
		failed = cmp.Or(failed, err, check(ctx, os.Stdout, file, string(text), path, 30*time.Second), ctx.Err())
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, "docscheck:", failed)
		os.Exit(1)
	}
}

// ownNetwork starts this program again in a network that has only a loopback interface, if the system allows that: there, all ports are free.
func ownNetwork() {
	args := []string{"unshare", "--net", "--map-current-user", "--keep-caps", "sh", "-c", `ip link set lo up && exec "$@"`, "sh"}
	path, err := exec.LookPath(args[0])
	if err == nil && os.Getenv("DOCSCHECK_NETWORK") == "" && exec.Command(path, append(args[1:], "true")...).Run() == nil {
		_ = syscall.Exec(path, append(args, os.Args...), append(os.Environ(), "DOCSCHECK_NETWORK=own"))
	}
}

// check reads a page: all transcripts that are not marked are run. It prints what is wrong and a summary, and fails if something is wrong. A command
// may take `patience` to end, and to print what is shown.
func check(ctx context.Context, out io.Writer, file, text, program string, patience time.Duration) error {
	blocks, run, compared, marked := parse(text), 0, 0, 0
	r, failed := newReader(ctx, program, patience)
	defer r.close()
	for _, b := range blocks {
		if b.notes["not run"] != "" {
			marked++
		} else if condition := b.notes["run if"]; condition != "" && r.shell(condition, r.folder).Run() != nil {
			fmt.Fprintf(out, "%s:%d: left out, because this fails: %s\n", file, b.line, condition)
		} else if len(r.terminals) > 0 {
			failed = cmp.Or(failed, r.enter(b))
			for _, s := range b.steps() {
				if line, problem := r.step(s); problem != "" && ctx.Err() == nil {
					failed = errors.New("pages show what is not true")
					fmt.Fprintf(out, "%s:%d: %s\n", file, line, problem)
				}
				run += min(1, len(s.command))
				compared += min(1, len(s.shown))
			}
		}
	}
	if len(blocks) > 0 {
		fmt.Fprintf(out, "%s: %d commands run, %d outputs compared, %d of %d blocks marked as not run\n", file, run, compared, marked, len(blocks))
	}
	return failed
}

// A reader runs the commands of a page.
type reader struct {
	ctx       context.Context
	folder    string // for everything of this page
	env       []string
	patience  time.Duration
	terminals []*terminal
	now       *terminal         // the one in use
	outputs   []string          // files with what the commands have printed
	ids       map[string]string // by those that the page shows
}

// A terminal is a shell. Each command has a file for what it prints, so that programs in the background do not write between the lines.
type terminal struct {
	shell    *exec.Cmd
	commands io.Writer
	folder   string // in which the shell is
	output   string // of the last command
	stuck    bool   // that command has not ended in time
}

const shell = `trap : INT
proxy() {
	wsbouncer serve "$@" &
	until wsbouncer status &>/dev/null; do sleep 0.1; done
}
while IFS= read -r -d '' command && IFS= read -r -d '' output; do
	eval "$command" </dev/null >"$output" 2>&1
	printf '%s %s\n' $? "$PWD" >"$output.end"
done`

// curl is a curl that downloads releases of wsbouncer without a network.
const curl = `#!/bin/bash
for word; do case $word in https://github.com/wsbouncer/wsbouncer/releases/download/*.tar.gz)
	name=$(basename "$word" .tar.gz)
	mkdir "$TMPDIR/$name" && cp "$(readlink "${0%/*}/wsbouncer")" "$TMPDIR/$name/wsbouncer" && exec tar -C "$TMPDIR" -c -I 'gzip -1' "$name"
esac; done
PATH=${PATH#"${0%/*}:"} exec curl "$@"
`

func newReader(ctx context.Context, program string, patience time.Duration) (*reader, error) {
	folder, err := os.MkdirTemp("", "docs-")
	r := &reader{ctx: ctx, folder: folder, patience: patience, ids: map[string]string{}}
	r.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WSBOUNCER_") || strings.HasPrefix(v, "XDG_") })
	r.env = append(r.env, "HOME="+folder+"/home", "TMPDIR="+folder+"/tmp", "PATH="+folder+"/bin:"+os.Getenv("PATH"), "TERM=dumb",
		"WSBOUNCER_STATE_DIRECTORY="+folder+"/state")
	for _, name := range []string{"bin", "home", "tmp", "work"} {
		err = cmp.Or(err, os.Mkdir(folder+"/"+name, 0o700))
	}
	return r, cmp.Or(err, os.Symlink(program, folder+"/bin/wsbouncer"), os.WriteFile(folder+"/bin/curl", []byte(curl), 0o700), r.open(folder+"/work"))
}

// shell returns a shell in a process group of its own, and in a folder.
func (r *reader) shell(script, folder string) *exec.Cmd {
	c := exec.Command("bash", "-c", script)
	c.Dir, c.Env, c.SysProcAttr = folder, r.env, &syscall.SysProcAttr{Setpgid: true}
	return c
}

// open opens a terminal in a folder.
func (r *reader) open(folder string) error {
	t := &terminal{shell: r.shell(shell, folder), folder: folder}
	commands, err := t.shell.StdinPipe()
	if err = cmp.Or(err, t.shell.Start()); err == nil {
		t.commands, r.now, r.terminals = commands, t, append(r.terminals, t)
	}
	return err
}

// close kills everything that the page has started, waits until the next page can have its ports, and removes its folder.
func (r *reader) close() {
	for _, t := range r.terminals {
		group := -t.shell.Process.Pid
		_ = syscall.Kill(group, syscall.SIGKILL)
		_ = t.shell.Wait()
		for until := time.Now().Add(5 * time.Second); syscall.Kill(group, 0) == nil && time.Now().Before(until); {
			time.Sleep(pause)
		}
	}
	_ = os.RemoveAll(r.folder)
}

// enter goes to the terminal of a block, and writes its file.
func (r *reader) enter(b block) error {
	r.now = r.terminals[len(r.terminals)-1]
	if strings.Contains(b.intro, "In the first") {
		r.now = r.terminals[0]
	}
	if strings.Contains(b.intro, "Ctrl-C") {
		_ = syscall.Kill(-r.now.shell.Process.Pid, syscall.SIGINT)
	}
	if name := b.notes["file"]; name != "" {
		return os.WriteFile(filepath.Join(r.now.folder, name), []byte(strings.Join(b.lines, "\n")+"\n"), 0o600)
	}
	return nil
}

// pause is the time between two looks at what a command has printed.
const pause = 50 * time.Millisecond

var (
	background = regexp.MustCompile(`&\s*(#.*)?$`)
	foreground = regexp.MustCompile(`^wsbouncer serve\b`)
	// repeatable commands only read: they are repeated until the proxy is in the state that is shown.
	repeatable = regexp.MustCompile(`^(wsbouncer (status|problems|\w+ (ls|show))|cat|tail|grep)\b`)
	// tooEarly is what a command prints before a program in the background is ready.
	tooEarly = regexp.MustCompile(`no proxy (answers|on this machine)|(?i)connection refused|Failed to connect`)
)

// step runs a command until it prints what is shown. It returns what is wrong, and in which line.
func (r *reader) step(s step) (line int, problem string) {
	ctx, cancel := context.WithTimeout(r.ctx, r.patience)
	defer cancel()
	if s.command == "" {
		return s.line, r.find(ctx, s.shown)
	}
	t, command := r.now, s.command
	for shown, now := range r.ids {
		command = strings.ReplaceAll(command, shown, now)
		if strings.HasPrefix(now, "wsb_") {
			command = strings.ReplaceAll(command, "wsb_...", now)
		}
	}
	stays := background.MatchString(command)
	keepsTerminal := foreground.MatchString(command) && !stays
	run := func() {
		t.output = filepath.Join(r.folder, fmt.Sprint("output-", len(r.outputs)))
		r.outputs = append(r.outputs, t.output)
		fmt.Fprintf(t.commands, "%s\x00%s\x00", command, t.output)
	}
	if t.stuck {
		return s.line, "not run, because the command before it does not end"
	}
	if run(); keepsTerminal && r.open(t.folder) != nil {
		return s.line, "no second terminal can be opened"
	}
	for ; ; time.Sleep(pause) {
		status, folder, ended := strings.Cut(strings.Join(printed(t.output+".end"), ""), " ")
		lines, late := printed(t.output), ctx.Err() != nil
		missing := compare(s.shown, lines, r.ids)
		done := missing < 0
		if s.shown == nil {
			done = status == "0" || keepsTerminal && strings.Contains(strings.Join(lines, "\n"), "msg=listening")
		}
		t.folder, t.stuck = cmp.Or(folder, t.folder), !ended && !keepsTerminal
		switch {
		case !late && t.stuck:
		case done:
			return 0, ""
		case !late && (stays || keepsTerminal && !ended):
		case !late && (repeatable.MatchString(command) || tooEarly.MatchString(strings.Join(lines, "\n"))):
			run()
		case t.stuck:
			return s.line, "the command does not end; it has printed:" + quote(lines)
		case s.shown == nil:
			return s.line, "exit status " + status + ":" + quote(lines)
		case missing == len(s.shown):
			return s.shownAt + missing - 1, "more is printed than is shown:" + quote(lines)
		default:
			return s.shownAt + missing, "shown:" + quote(s.shown[missing:missing+1]) + "\n    printed:" + quote(lines)
		}
	}
}

// find waits until commands before have printed lines as shown, perhaps within longer ones. It returns what is wrong.
func (r *reader) find(ctx context.Context, shown []string) (problem string) {
	within := strings.Split("...\n..."+strings.Join(shown, "...\n...")+"...\n...", "\n")
	for ; ctx.Err() == nil; time.Sleep(pause) {
		for _, output := range r.outputs {
			if compare(within, printed(output), r.ids) < 0 {
				return ""
			}
		}
	}
	return "no command has printed:" + quote(shown)
}

// printed returns the lines of an output so far.
func printed(output string) []string {
	text, _ := os.ReadFile(output)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// quote indents lines, of which it leaves out what is in the middle of many.
func quote(lines []string) (text string) {
	if len(lines) > 20 {
		lines = slices.Concat(lines[:10], []string{"[...]"}, lines[len(lines)-10:])
	}
	for _, line := range lines {
		text += "\n        " + line
	}
	return text
}
