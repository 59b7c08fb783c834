package realservers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/lab/verify"
)

// Result is what was found about a server: a row of the matrix.
type Result struct {
	Name     string  `json:"name"`
	Server   string  `json:"server"`
	Homepage string  `json:"homepage"`
	Version  string  `json:"version"`
	Profile  string  `json:"profile"`
	Note     string  `json:"note,omitempty"`
	Date     string  `json:"date"`
	Claims   []Claim `json:"claims,omitempty"`
	// Client is whether the server's own client prints the same with the proxy: same, differs, or none if there is no such client.
	Client string `json:"client,omitempty"`
	// Full is how the server refused a session that was too many; empty if it was not seen.
	Full string `json:"full,omitempty"`
	// Verdict is the profile's on failover.
	Verdict  string    `json:"verdict,omitempty"`
	Reuse    *Reuse    `json:"reuse,omitempty"`
	Failover *Failover `json:"failover,omitempty"`
	Warm     *Warm     `json:"warm,omitempty"`
	// Skipped is why the server was not run, and Faults what went wrong.
	Skipped string   `json:"skipped,omitempty"`
	Faults  []string `json:"faults,omitempty"`
}

// Claim is a claim of the profile and its verdict.
type Claim struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
}

// Reuse is how many sessions were held over how many connections.
type Reuse struct {
	verify.CrowdReport
	Dialed uint64 `json:"dialed"`
}

// Failover is what became of sessions when one of two servers was killed.
type Failover struct {
	verify.CrowdReport
	Moved int `json:"moved"`
}

// Warm is what connections that wait for a session cost the server: how many it took, bytes of memory, and lines of its log.
type Warm struct {
	Asked       int     `json:"asked"`
	Connections int     `json:"connections"`
	Refused     string  `json:"refused,omitempty"`
	BytesEach   int64   `json:"bytes_each"`
	LinesEach   float64 `json:"lines_each"`
	Waits       *Waits  `json:"waits,omitempty"` // nil if it was not tried
}

// Waits is what became of a connection that waited for its session: after how many seconds it had ended or the session began, how the server closed
// it, and why it was dead though it was open; both empty if the session was held.
type Waits struct {
	Seconds float64 `json:"seconds"`
	Closed  string  `json:"closed,omitempty"`
	Dead    string  `json:"dead,omitempty"`
}

func (w *Waits) String() string {
	switch {
	case w.Closed != "":
		return fmt.Sprintf("closed %.0f, %s", w.Seconds, strings.TrimPrefix(w.Closed, "the server closed "))
	case w.Dead != "":
		return fmt.Sprintf("dead %.0f", w.Seconds)
	}
	return fmt.Sprintf("good %.0f", w.Seconds)
}

// Err returns an error that names the servers at which something went wrong.
func Err(all []*Result) error {
	var wrong []error
	for _, r := range all {
		if len(r.Faults) > 0 {
			wrong = append(wrong, fmt.Errorf("%s: %s", r.Name, strings.Join(r.Faults, "\n")))
		}
	}
	return errors.Join(wrong...)
}

// ReadResults reads the results in a file; none if there is no such file.
func ReadResults(file string) (all []*Result, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// Merge returns the results with those of a run in place of the servers' former ones. A server that was skipped keeps its former result.
func Merge(before, run []*Result) []*Result {
	all := slices.Clone(before)
	for _, r := range run {
		i := slices.IndexFunc(all, func(b *Result) bool { return b.Name == r.Name })
		switch {
		case i < 0:
			all = append(all, r)
		case r.Skipped == "":
			all[i] = r
		}
	}
	slices.SortFunc(all, func(a, b *Result) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Changed says in what two results of a server differ, apart from dates, times and numbers; empty for nothing.
func Changed(before, after *Result) string {
	key := func(r *Result) string {
		return fmt.Sprint(r.Version, r.Profile, r.Claims, r.Client, r.Full != "", r.Verdict, r.Warm != nil && r.Warm.Waits != nil && r.Warm.Waits.Closed+r.Warm.Waits.Dead != "", len(r.Faults) > 0)
	}
	if a, b := key(before), key(after); a != b {
		return fmt.Sprintf("- %s\n+ %s", a, b)
	}
	return ""
}

// Page returns the page of docs with the matrix.
func Page(all []*Result) string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, r := range all {
		if r.Skipped != "" && r.Claims == nil {
			fmt.Fprintf(&b, "| [%s](%s) | `%s` | not run: %s | | | |\n", r.Server, r.Homepage, r.Profile, r.Skipped)
			continue
		}
		fmt.Fprintf(&b, "| [%s](%s)<br>%s<br>%s | `%s` | %s, %s | %s | %s%s | %s |\n",
			r.Server, r.Homepage, r.Version, r.Date, r.Profile, r.claims(), r.client(), r.reuse(), r.failover(), r.full(), r.idle())
	}
	b.WriteString("\n")
	for _, r := range all {
		if r.Note != "" {
			fmt.Fprintf(&b, "- **%s**: %s\n", r.Server, r.Note)
		}
	}
	return b.String()
}

const pageHead = `# Tested servers

` + "`make test-servers`" + ` tries the built-in profiles on these programs, and writes this page. Do not edit it, but
[add a server](../../CONTRIBUTING.md#a-real-server).
A model is real where the version names one. Elsewhere, words that follow from the samples stand in for it.

- **claims, client**: how many of the profile's claims hold, of those that ` + "`wsbouncer profile verify`" + ` could try; whether the server's own client prints the
  same through the proxy
- **sessions**: of 8 clients, held to their end, and left early; connections dialed for them, at most 4 at a time. Foreign words, other words and lost
  sessions are counted if there were any
- **failover**: how many of 8 sessions were held to their end when one of two servers was killed, and how many moved
  ([verdicts](../choose-a-profile.md#what-happens-when-a-server-dies)); *full*: sessions that a full server refuses move
- **idle**: KiB of the server's memory and lines of its log for an idle connection, and its state after that number of
  seconds: *good*, *closed*, or *dead* though open. The proxy retires connections before they end, or does not dial ahead

| server | profile | claims, client | sessions | failover | idle |
| --- | --- | --- | --- | --- | --- |
`

func (r *Result) claims() string {
	holds, fails := 0, []string(nil)
	for _, c := range r.Claims {
		switch c.Verdict {
		case string(verify.Holds):
			holds++
		case string(verify.Fails):
			fails = append(fails, c.Name)
		}
	}
	text := fmt.Sprintf("%d/%d", holds, holds+len(fails))
	if len(fails) > 0 {
		text += "; not: " + strings.Join(fails, ", ")
	}
	return text
}

func (r *Result) client() string {
	if r.Client == "" {
		return "failed"
	}
	return r.Client
}

// reuse shows foreign, other and lost sessions only if there are any.
func (r *Result) reuse() string {
	if r.Reuse == nil {
		return "failed"
	}
	text := fmt.Sprintf("%d, %d, %d", r.Reuse.Held(), r.Reuse.Left, r.Reuse.Dialed)
	for _, wrong := range []struct {
		what     string
		sessions []string
	}{{"foreign", r.Reuse.Foreign}, {"other", r.Reuse.Other}, {"lost", r.Reuse.Lost}} {
		if len(wrong.sessions) > 0 {
			text += fmt.Sprintf("; %d %s", len(wrong.sessions), wrong.what)
		}
	}
	return text
}

func (r *Result) failover() string {
	if r.Failover == nil {
		return r.Verdict
	}
	f := r.Failover
	text := fmt.Sprintf("%d/%d, %d", f.Held()-len(f.Lost), f.Held(), f.Moved)
	if same := f.Same + f.Words; same < f.Held() {
		text += fmt.Sprintf(", %d with the same words", same)
	}
	return text
}

// full returns what the column failover shows if a session that a full server refuses moves; empty if that was not seen.
func (r *Result) full() string {
	if r.Full == "" {
		return ""
	}
	return ", full"
}

func (r *Result) idle() string {
	var parts []string
	if w := r.Warm; w != nil && w.Connections > 0 {
		parts = append(parts, fmt.Sprintf("%d, %.1f", max(0, w.BytesEach)>>10, w.LinesEach))
	}
	if w := r.Warm; w != nil && w.Waits != nil {
		parts = append(parts, w.Waits.String())
	}
	return strings.Join(parts, "; ")
}
