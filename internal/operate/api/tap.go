package api

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// The tap, GET /api/v1/tap, streams TapEvents as JSON lines (application/x-ndjson), and an empty line when nothing has happened for a
// while. The query is that of TapQuery. Since a tap shows what clients say, and is written to the audit log, the request needs the same
// proof as a change: ChangeHeader or a token.

// Bounds of TapQuery.
const (
	DefaultTapText = 200  // bytes
	MaxTapText     = 4096 // bytes
	MaxTapFirst    = 1000 // sessions
	MaxTapSeconds  = 3600
	MaxTapWho      = 200 // bytes of who and of why
)

// TapQuery chooses what a tap shows: one session, or the next few that begin and fit the filters.
type TapQuery struct {
	Session string // an id. Otherwise at least one of the next three:
	Client  string // address, or address and port
	Backend string
	Service string
	First   int     // how many sessions: 1 to MaxTapFirst, default 1
	Text    int     // how many bytes of each text frame to show: 0 to MaxTapText, default DefaultTapText
	Seconds float64 // how long the tap lasts at most: above 0, at most and by default MaxTapSeconds; "for" in the URL
	Order           // who and why, for the audit log
}

// ParseTapQuery reads the query of a URL. An error names the parameter, the value and what is allowed.
func ParseTapQuery(values url.Values) (q TapQuery, err error) {
	q = TapQuery{First: 1, Text: DefaultTapText, Seconds: MaxTapSeconds}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "session":
			q.Session = value
		case "client":
			q.Client = value
		case "backend":
			q.Backend = value
		case "service":
			q.Service = value
		case "first":
			if q.First, err = strconv.Atoi(value); err != nil || q.First < 1 || q.First > MaxTapFirst {
				return q, fmt.Errorf("first: invalid number %.40q: use a whole number from 1 to %d", value, MaxTapFirst)
			}
		case "text":
			if q.Text, err = strconv.Atoi(value); err != nil || q.Text < 0 || q.Text > MaxTapText {
				return q, fmt.Errorf("text: invalid number %.40q: use a whole number of bytes from 0 to %d", value, MaxTapText)
			}
		case "for":
			if q.Seconds, err = strconv.ParseFloat(value, 64); err != nil || !(q.Seconds > 0 && q.Seconds <= MaxTapSeconds) {
				return q, fmt.Errorf("for: invalid number %.40q: use seconds, above 0 and at most %d", value, MaxTapSeconds)
			}
		case "who", "why":
			if len(value) > MaxTapWho {
				return q, fmt.Errorf("%s: %d bytes are too many: use at most %d", name, len(value), MaxTapWho)
			}
			if name == "who" {
				q.Who = value
			} else {
				q.Why = value
			}
		default:
			return q, fmt.Errorf("unknown parameter %.40q: use session, client, backend, service, first, text, for, who or why", name)
		}
	}
	if q.Client, err = canonicalClient(q.Client); err != nil {
		return q, err
	}
	filters := q.Client != "" || q.Backend != "" || q.Service != ""
	switch {
	case q.Session == "" && !filters:
		return q, fmt.Errorf("nothing is chosen: use session=ID, or client, backend or service for the next sessions that begin")
	case q.Session != "" && (filters || values.Has("first")):
		return q, fmt.Errorf("session=%.40s chooses one session: leave out client, backend, service and first", q.Session)
	}
	return q, nil
}

// canonicalClient returns a client's address, or address and port, in the one form that sessions have it in.
func canonicalClient(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String(), nil
	}
	at, err := netip.ParseAddr(text)
	if err != nil {
		return "", fmt.Errorf("client: invalid address %.60q: use an IP address, or an address and port such as 10.1.2.3:40112", text)
	}
	return at.Unmap().String(), nil
}

// Values returns the query of a URL.
func (q TapQuery) Values() url.Values {
	v := make(url.Values)
	for name, value := range map[string]string{
		"session": q.Session, "client": q.Client, "backend": q.Backend, "service": q.Service, "who": q.Who, "why": q.Why,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.First > 0 && q.Session == "" {
		v.Set("first", strconv.Itoa(q.First))
	}
	v.Set("text", strconv.Itoa(q.Text))
	if q.Seconds > 0 {
		v.Set("for", strconv.FormatFloat(q.Seconds, 'g', -1, 64))
	}
	return v
}

// Events of a tap.
const (
	TapSession    = "session"    // it began, is in the state What when the tap begins, is moving, moved, or ended
	TapFrame      = "frame"      // a frame passed, or the proxy sent one
	TapVerdict    = "verdict"    // of the profile on the last frame of that side, or on the session
	TapConnection = "connection" // what becomes of the backend's connection after the session
	TapMissed     = "missed"     // Count events were missed, since the reader was too slow
	TapEnd        = "end"        // of the tap, for the Reason
)

// TapEvent is one line of a tap: what happened on a session while an operator watched.
type TapEvent struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"` // an id; missing for missed and end
	Event   string    `json:"event"`             // one of those above
	// From is client or backend for frames and verdicts, and proxy for frames that the proxy itself sent, to To. For the end of a session it
	// is who ended it.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Kind string `json:"kind,omitempty"` // of a frame: text, binary, continuation, ping, pong, close
	Size int64  `json:"size,omitempty"` // of a frame's payload in bytes
	Fin  bool   `json:"fin,omitempty"`  // the frame ends its message
	Text string `json:"text,omitempty"` // the beginning of a text frame
	Cut  bool   `json:"cut,omitempty"`  // the text is longer
	Code uint16 `json:"code,omitempty"` // of a close frame, or the client's close code
	// What is, for a verdict, one of: passed, held (back until the message is known), released (as one new frame), dropped, hidden (the client
	// does not get it), waits (it is left unread), paused and resumed (the client is not read, is read again), ends-session, reset, answered
	// (it was the client's last answer), moved, broken. For a frame, dropped if it came unexpectedly. For a session: began, the state
	// in which it is when the tap begins, moving, moved, ended. For a connection: resetting, ended (in order), returned, discarded.
	What   string `json:"what,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Service, Backend and Client are those of a session that began, moved or ended.
	Service string `json:"service,omitempty"`
	Backend string `json:"backend,omitempty"`
	Client  string `json:"client,omitempty"`
	// Seconds is how long a session lasted that has ended, or a connection's reset took.
	Seconds float64 `json:"seconds,omitempty"`
	// Count is how many events were missed.
	Count uint64 `json:"count,omitempty"`
}
