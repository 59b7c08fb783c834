package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Formats of lines.
const (
	// JSON is one JSON object for each entry.
	JSON = "json"
	// Combined is the format of the same name that Apache and nginx have. It says less: the address, the tenant as the user, the
	// end, the path, the status and the payload bytes sent to the client. Referer and User-Agent are always "-", since the proxy
	// logs no headers.
	Combined = "combined"
)

// Formats are all formats.
var Formats = []string{JSON, Combined}

// appendLine appends the entry's line, with its line break, to dst.
func (e *Entry) appendLine(dst []byte, format string) []byte {
	if format == Combined {
		return e.appendCombined(dst)
	}
	return e.appendJSON(dst)
}

func (e *Entry) appendJSON(dst []byte) []byte {
	now := *e
	now.Ended = now.Ended.UTC().Truncate(time.Millisecond)
	if e.Session != nil {
		session := *e.Session
		session.Started = session.Started.UTC().Truncate(time.Millisecond)
		now.Session = &session
	}
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&now); err != nil { // a time that JSON cannot have, such as the year 10000
		return fmt.Appendf(dst, "{\"error\":%q}\n", err.Error())
	}
	return line.Bytes()
}

func (e *Entry) appendCombined(dst []byte) []byte {
	client, request, size := "-", "-", "-"
	if e.Client.IsValid() {
		client = e.Client.Addr().String()
	}
	if e.Path != "" {
		request = "GET " + escape(e.Path) + " HTTP/1.1"
	}
	if e.Session != nil {
		size = strconv.FormatUint(e.BytesFromBackend, 10)
	}
	user := "-"
	if e.Tenant != "" {
		user = strings.ReplaceAll(escape(e.Tenant), " ", `\x20`)
	}
	return fmt.Appendf(dst, "%s - %s [%s] \"%s\" %d %s \"-\" \"-\"\n",
		client, user, e.Ended.Format("02/Jan/2006:15:04:05 -0700"), request, e.Status, size)
}

// escape returns the text as it may stand between quotes: as nginx does, it writes quotes, backslashes and control characters as \xXX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' || c < ' ' || c == 0x7f {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
