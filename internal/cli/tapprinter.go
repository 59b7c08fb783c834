package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// tapPrinter prints the events of a tap, a line each.
type tapPrinter struct {
	out     io.Writer
	json    bool
	several bool // sessions are told apart
	colours bool
}

func newTapPrinter(out io.Writer, asJSON, several bool) *tapPrinter {
	return &tapPrinter{out: out, json: asJSON, several: several, colours: colours(out)}
}

// print prints an event, which came as this line.
func (p *tapPrinter) print(line []byte, e *api.TapEvent) error {
	if p.json {
		_, err := fmt.Fprintf(p.out, "%s\n", harmlessJSON(string(line)))
		return err
	}
	who, what, colour := describeTapEvent(e)
	if !p.colours {
		colour = ""
	}
	session := ""
	if p.several {
		session = fmt.Sprintf("%-15s ", e.Session)
	}
	_, err := fmt.Fprintf(p.out, "%s %s%s %s\n", e.Time.UTC().Format("15:04:05.000"), session, paint(colour, fmt.Sprintf("%-10s", who)), paint(colour, what))
	return err
}

// harmlessJSON returns a line of JSON, which has what a client or a server has said, with the characters escaped that are not printable: a terminal might
// obey them. It is the same JSON.
func harmlessJSON(line string) string {
	var b strings.Builder
	for _, r := range line {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}

// verdicts are the profile's verdicts in words.
var verdicts = map[string]string{
	"passed":       "passed",
	"held":         "held back until more of it is known",
	"released":     "passed, with what was held back of it, as one new frame",
	"dropped":      "dropped: it does not reach the other side",
	"hidden":       "hidden: the client does not get it",
	"waits":        "left unread for now",
	"paused":       "the client is not read for now",
	"resumed":      "the client is read again",
	"ends-session": "it is the client's last message: the proxy sends the reset in its place",
	"reset":        "the reset begins",
	"answered":     "it is the client's last answer",
	"moved":        "another connection must serve the session",
	"broken":       "the connection can serve no other session",
}

// describeTapEvent returns who does something, what that is, and its colour; empty for none.
func describeTapEvent(e *api.TapEvent) (who, what, colour string) {
	reason := ""
	if e.Reason != "" {
		reason = ": " + oneLine(e.Reason)
	}
	switch e.Event {
	case api.TapFrame:
		return e.From, describeTapFrame(e), map[string]string{"client": green, "backend": "", "proxy": bold}[e.From]
	case api.TapVerdict:
		text, known := verdicts[e.What]
		if !known { // of a newer proxy
			text = oneLine(e.What)
		}
		if e.From != "" {
			text = "(" + e.From + ") " + text
		}
		colour = dim
		if e.What == "broken" || e.What == "moved" {
			colour = yellow
		}
		return "  profile", text + reason, colour
	case api.TapSession:
		return "session", describeTapSession(e) + reason, bold
	case api.TapConnection:
		return describeTapConnection(e, reason)
	case api.TapMissed:
		return "tap", fmt.Sprintf("missed %s: this reader is too slow", figures.Plural(int(min(e.Count, 1<<31)), "event")), red
	case api.TapEnd:
		return "tap", "ends" + reason, bold
	}
	return oneLine(e.Event), oneLine(e.What) + reason, "" // of a newer proxy
}

// describeTapFrame describes a frame.
func describeTapFrame(e *api.TapEvent) string {
	var b strings.Builder
	if e.To != "" {
		b.WriteString("to the " + e.To + ": ")
	}
	fmt.Fprintf(&b, "%s %d B", e.Kind, e.Size)
	if !e.Fin {
		b.WriteString(", not the last of its message")
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, ", code %d", e.Code)
	}
	if e.Reason != "" {
		b.WriteString(" (" + oneLine(e.Reason) + ")")
	}
	if e.What != "" {
		b.WriteString(", " + e.What)
	}
	if e.Text != "" {
		b.WriteString("  " + oneLine(e.Text))
	}
	if e.Cut && e.Text != "" {
		b.WriteString(" ...")
	}
	return b.String()
}

// describeTapSession describes what a session does.
func describeTapSession(e *api.TapEvent) string {
	switch e.What {
	case "began":
		return fmt.Sprintf("%s of service %s begins on %s for %s", e.Session, e.Service, e.Backend, e.Client)
	case "moving":
		return "moves to another connection"
	case "moved":
		return "continues on another connection, to " + e.Backend
	case "ended":
		text := fmt.Sprintf("ended by the %s after %s", e.From, figures.Seconds(e.Seconds))
		if e.Code != 0 {
			text += fmt.Sprintf(", code %d", e.Code)
		}
		return text
	}
	text := fmt.Sprintf("%s of service %s for %s is %s", e.Session, e.Service, e.Client, e.What)
	if e.Backend != "" {
		text += " on " + e.Backend
	}
	return text
}

// describeTapConnection describes what becomes of a connection.
func describeTapConnection(e *api.TapEvent, reason string) (who, what, colour string) {
	what = e.What
	switch e.What {
	case "resetting":
		what = "is being reset" + reason
	case "returned":
		what = "back in the pool"
		if e.Seconds > 0 {
			what += ", after a reset of " + resetTime(e.Seconds)
		}
	case "discarded":
		what = "discarded" + reason
		if e.Seconds > 0 {
			what += ", " + resetTime(e.Seconds) + " after the reset began"
		}
		return "connection", what, yellow
	}
	return "connection", what, bold
}

func resetTime(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond).String()
}

// breaks are line breaks with the indentation around them, and tabs.
var breaks = regexp.MustCompile(`[ \t]*[\r\n]\s*|\t+`)

// oneLine returns a text that came from outside as one line without control characters.
func oneLine(text string) string {
	return printable.Text(breaks.ReplaceAllLiteralString(text, " "), 4*api.MaxTapText)
}
