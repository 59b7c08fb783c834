package profile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Tell has the text messages by which the proxy itself tells a client how it fares. Clients must know them, so a service asks for them.
// Empty texts are not sent. It is immutable.
type Tell struct {
	queue    string // while the client waits for a connection, with its place
	moved    string // after another server has taken over the session
	degraded string // when less than half of the servers work, or the session could no longer outlive its server; and when that has ended
}

// The placeholders in the texts.
const (
	placeMark   = "$place"   // in the queue: 1 is next
	waitMark    = "$wait"    // how many seconds until then, or null while that is not known
	serviceMark = "$service" // the service's name
	stateMark   = "$state"   // degraded or normal
	reasonMark  = "$reason"  // why, in a few words; empty with normal
)

// tellKeys are the keys of tell, in the order in which they are documented and printed, with their placeholders.
var tellKeys = []struct {
	name  string
	text  func(*Tell) *string
	marks []string
}{
	{"queue", func(t *Tell) *string { return &t.queue }, []string{placeMark, waitMark, serviceMark}},
	{"moved", func(t *Tell) *string { return &t.moved }, []string{serviceMark}},
	{"degraded", func(t *Tell) *string { return &t.degraded }, []string{stateMark, reasonMark, serviceMark}},
}

// maxTell is the length in bytes of the longest text of tell.
const maxTell = 1 << 10

// Tell returns the messages that tell clients how they fare.
func (p *Profile) Tell() *Tell { return &p.spec.tell }

// Queues, Moves and Degrades report whether the profile has a message for a client that waits, whose session has moved, and whose session or
// service is degraded.
func (t *Tell) Queues() bool   { return t.queue != "" }
func (t *Tell) Moves() bool    { return t.moved != "" }
func (t *Tell) Degrades() bool { return t.degraded != "" }

// Queue returns the text for a client that waits at this place of a service's queue. wait is how many seconds it takes; negative if that
// is not known.
func (t *Tell) Queue(service string, place, wait int) string {
	seconds := "null"
	if wait >= 0 {
		seconds = strconv.Itoa(wait)
	}
	return strings.NewReplacer(placeMark, strconv.Itoa(place), waitMark, seconds, serviceMark, inJSON(service)).Replace(t.queue)
}

// Moved returns the text for a client whose session another server has taken over.
func (t *Tell) Moved(service string) string {
	return strings.ReplaceAll(t.moved, serviceMark, inJSON(service))
}

// Degraded returns the text for a client whose session or service is degraded, or no longer is if reason is empty.
func (t *Tell) Degraded(service, reason string) string {
	state := "degraded"
	if reason == "" {
		state = "normal"
	}
	return strings.NewReplacer(stateMark, state, reasonMark, inJSON(reason), serviceMark, inJSON(service)).Replace(t.degraded)
}

// inJSON returns a text as it stands between the quotes of a JSON string.
func inJSON(text string) string {
	b, _ := json.Marshal(text) // never fails for a string
	return string(b[1 : len(b)-1])
}

func (t *Tell) fields() (fields []field) {
	for _, k := range tellKeys {
		fields = append(fields, field{k.name, textAt(k.text(t)).orNone()})
	}
	return fields
}

// checkTell finds texts that no client could read, or that have unknown placeholders.
func (r *reader) checkTell(s *spec) {
	for _, k := range tellKeys {
		text, at := *k.text(&s.tell), s.place("tell."+k.name, "tell")
		if text == "" {
			continue
		}
		if len(text) > maxTell {
			r.problem(at, "tell.%s has %d bytes: use at most %d", k.name, len(text), maxTell)
		}
		for _, word := range placeholders(text) {
			if !slices.Contains(k.marks, word) {
				r.problem(at, "tell.%s: %v", k.name, spelling.Unknown("placeholder", word, k.marks))
			}
		}
		filled := map[string]func(*Tell) string{
			"queue": func(t *Tell) string { return t.Queue("a", 1, -1) }, "moved": func(t *Tell) string { return t.Moved("a") },
			"degraded": func(t *Tell) string { return t.Degraded("a", "") },
		}[k.name](&s.tell)
		if (s.speaksJSON() || strings.HasPrefix(strings.TrimSpace(text), "{")) && !json.Valid([]byte(filled)) {
			r.problem(at, "tell.%s is not valid JSON once its placeholders are filled in: %s", k.name, filled)
		}
	}
}

// placeholders returns the words that begin with a dollar sign.
func placeholders(text string) (words []string) {
	for {
		_, after, ok := strings.Cut(text, "$")
		if !ok {
			return words
		}
		end := len(after) - len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz"))
		words, text = append(words, "$"+after[:end]), after[end:]
	}
}

// speaksJSON reports whether the server's messages are JSON, as far as the profile knows them.
func (s *spec) speaksJSON() bool {
	for _, key := range []string{"greeting", "ready", "busy", "reset.until", "leave.until", "tag.done"} {
		for _, m := range s.uses()[key] {
			if m.json != nil {
				return true
			}
		}
	}
	return false
}
