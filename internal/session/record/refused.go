package record

import (
	"log/slog"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Refused is what the log says about a client that got no session. Its texts are printable and of bounded length.
type Refused struct {
	Arrived   time.Time // when its connection was accepted
	At        time.Time // when it was answered
	ID        ID
	Service   string // that it asked for; empty if there is none, or its request could not be read
	Path      string // that it asked for, without the query; empty if its request could not be read
	Client    origin.Address
	Identity  *identity.Identity // who the client is, if that is known; nil otherwise
	Peer      *origin.Address    // that its connection came from; nil if that is Client
	Status    int                // HTTP status of the answer
	Reason    string             // never says what the client's query or header had
	RequestID string
	TraceID   string
	Trace     *Trace // nil for none
}

// MaxReason is how much the log shows of a reason, in bytes. A close frame's has at most 123.
const MaxReason = 256

// maxIdentity is how much is shown of each text of an identity, in bytes.
const maxIdentity = 128

// shownIdentity returns what logs say about a client's identity: names with texts.
func IdentityTexts(who *identity.Identity) []string {
	if who == nil {
		return nil
	}
	shown := ShownIdentity(who)
	return []string{"tenant", shown.Tenant, "subject", shown.Subject, "auth", shown.Method, "key", shown.Key}
}

// ShownIdentity returns what operators see of a client's identity: printable texts of bounded length, which come from tokens and
// certificates as their issuers wrote them. The zero value stands for an unknown client.
func ShownIdentity(who *identity.Identity) (shown identity.Identity) {
	if who == nil {
		return shown
	}
	shown = *who
	for _, text := range []*string{&shown.Tenant, &shown.Subject, &shown.Key} {
		*text = printable.Text(*text, maxIdentity)
	}
	return shown
}

// AppendTexts appends those of the texts, each after its name, that are not empty.
func AppendTexts(attrs []slog.Attr, namesAndTexts ...string) []slog.Attr {
	for pair := range slices.Chunk(namesAndTexts, 2) {
		if pair[1] != "" {
			attrs = append(attrs, slog.String(pair[0], pair[1]))
		}
	}
	return attrs
}
