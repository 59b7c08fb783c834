package main

import (
	"regexp"
	"strings"
)

// A block is an indented or fenced block of a page, with the paragraph and the comments before it.
type block struct {
	line  int // of lines[0], counted from 1
	lines []string
	intro string
	notes map[string]string // texts of comments by their kinds
}

// A step is a command of a page, with the lines that the page shows after it: nil if it shows none.
type step struct {
	line, shownAt int    // of the command and of shown[0]
	command       string // empty if a command before it prints what is shown
	shown         []string
}

// markup finds blocks and the comments for this program. All comments but the first are about the next block:
//
//	<!-- page not run: REASON -->
//	<!-- not run: REASON -->
//	<!-- run if: COMMAND -->       it is run only if this command succeeds
//	<!-- run: COMMANDS -->         they run before it; `proxy FLAGS` starts a proxy and waits for it
//	<!-- file: NAME -->            it is written to this file
var markup = regexp.MustCompile(`(?ms)<!--\s*(page not run|not run|run if|run|file):\s*(.*?)\s*-->` +
	"|^ *```[^\n]*\n(.*?)^ *```" + `|^\n((?: {4}[^\n]*\n|\n)+)`)

// transcript matches blocks with commands after "$ ", or with lines of a log.
var transcript = regexp.MustCompile(`(?m)^\$ |\A(time=\S+ )?level=`)

// parse returns the transcripts of a page, and its blocks with comments.
func parse(text string) (blocks []block) {
	notes, end, pageNotRun := map[string]string{}, 0, ""
	for _, at := range markup.FindAllStringSubmatchIndex(text, -1) {
		if at[2] >= 0 {
			notes[text[at[2]:at[3]]] = text[at[4]:at[5]]
			continue
		}
		start, stop := max(at[6], at[8]), max(at[7], at[9])
		content := strings.TrimRight(text[start:stop], "\n")
		indent := content[:len(content)-len(strings.TrimLeft(content, " \n"))]
		content = strings.ReplaceAll("\n"+content, "\n"+indent, "\n")[1:]
		if pageNotRun += notes["page not run"]; pageNotRun != "" {
			notes["not run"] = pageNotRun
		}
		if isTranscript := transcript.MatchString(content); isTranscript || len(notes) > 0 && pageNotRun == "" {
			paragraphs := strings.Split(strings.TrimSpace(text[end:at[0]]), "\n\n")
			blocks = append(blocks, block{1 + strings.Count(text[:start], "\n"), strings.Split(content, "\n"), paragraphs[len(paragraphs)-1], notes})
		}
		notes, end = map[string]string{}, stop
	}
	return blocks
}

var heredoc = regexp.MustCompile(`<<'?(\w+)`)

// steps returns the commands of the comments before the block, and those of the block.
func (b block) steps() (all []step) {
	if hidden := b.notes["run"]; hidden != "" {
		all = append(all, step{line: b.line, command: hidden})
	}
	if !transcript.MatchString(strings.Join(b.lines, "\n")) {
		return all
	}
	s := step{line: b.line, shownAt: b.line}
	for i := 0; i < len(b.lines); i++ {
		command, isCommand := strings.CutPrefix(b.lines[i], "$ ")
		if !isCommand {
			s.shown = append(s.shown, b.lines[i])
			continue
		}
		if s.command != "" || s.shown != nil {
			all = append(all, s)
		}
		s = step{line: b.line + i}
		end := append(heredoc.FindStringSubmatch(command), "", "")[1]
		for i+1 < len(b.lines) && (strings.HasSuffix(command, `\`) || end != "" && b.lines[i] != end) {
			i++
			command += "\n" + b.lines[i]
		}
		s.command, s.shownAt = command, b.line+i+1
	}
	return append(all, s)
}

// blanks replaces what differs from run to run.
var blanks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{identifier, "ID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d(T[\d:.]+Z)?|\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b((127\.0\.0\.1|localhost):)\d{5}\b`), "${1}PORT"},
	{regexp.MustCompile(`<?\b\d+(\.\d+)?((ns|µs|ms|s|m|h|d)(\d+(ms|s|m))*| s)\b`), "DURATION"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?([KMG]i)?B\b`), "SIZE"},
	{regexp.MustCompile(`\b(v|go)\d+\.\d+(\.\d+)?[-.\w]*`), "VERSION"},
	{regexp.MustCompile(`\b[1-9]\d* (sent|received|per second)\b`), "NUMBER $1"},
	{regexp.MustCompile(`\s+`), " "},
}

// identifier matches API keys, and ids of sessions and proxies.
var identifier = regexp.MustCompile(`\b(wsb_[a-z0-9]{38}|[a-z2-7]{8}-\d{5,10}|[0-9a-f]{16})\b`)

func blank(line string) string {
	for _, b := range blanks {
		line = b.pattern.ReplaceAllString(line, b.by)
	}
	return strings.TrimSpace(line)
}

// same reports whether a line is as shown, where "..." stands for any text.
func same(shown, real string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(blank(shown)), `\.\.\.`, ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(blank(real))
}

// compare compares lines with those that a page shows, where "..." stands for any lines. If they agree, it returns -1, and adds the real ids by
// those that are shown. Otherwise, it returns the index of the first shown line that is missing, which is len(shown) if there are more lines.
func compare(shown, real []string, ids map[string]string) (missing int) {
	var match func(s, r int) bool
	match = func(s, r int) bool {
		missing = max(missing, s)
		if s == len(shown) {
			return r == len(real)
		}
		if skips := shown[s] == "..."; skips || shown[s] == "" {
			return match(s+1, r) || skips && r < len(real) && match(s, r+1)
		}
		if r == len(real) || !same(shown[s], real[r]) || !match(s+1, r+1) {
			return false
		}
		now := identifier.FindAllString(real[r], -1)
		for i, old := range identifier.FindAllString(shown[s], len(now)) {
			ids[old] = now[i]
		}
		return true
	}
	if match(0, 0) {
		return -1
	}
	return missing
}
