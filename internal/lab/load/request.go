package load

import (
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// ownFields are the header fields of the opening handshake itself (RFC 6455, section 4.1), in lower case.
var ownFields = []string{
	"host", "upgrade", "connection", "content-length", "transfer-encoding", "sec-websocket-key", "sec-websocket-version",
	"sec-websocket-extensions", "sec-websocket-protocol",
}

// checkRequest checks the options for the upgrade request, except for the URL, and returns the additional header fields.
func (o Options) checkRequest(f *faults) []handshake.Field {
	var fields []handshake.Field
	for _, text := range o.Header {
		name, value, ok := strings.Cut(text, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok:
			f.add("header: %q has no colon: use a name and a value, such as 'Authorization: Bearer abc'", text)
		case !handshake.IsToken(name):
			f.add("header: %q has the invalid name %q: use letters, digits and !#$%%&'*+-.^_`|~", text, name)
		case slices.Contains(ownFields, strings.ToLower(name)):
			f.add("header: the handshake itself sets %q", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.add("header: the value of %q has a control character: use visible characters, spaces and tabs", name)
		default:
			fields = append(fields, handshake.Field{Name: name, Value: value})
		}
	}
	if o.Subprotocol != "" && !handshake.IsToken(o.Subprotocol) {
		f.add("subprotocol: invalid name %q: use letters, digits and !#$%%&'*+-.^_`|~", o.Subprotocol)
	}
	return fields
}
