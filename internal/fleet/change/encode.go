package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// about is what a member says of itself, as stores keep it.
type about struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Schema   int64     `json:"schema"`
	Address  string    `json:"address,omitempty"`
	Host     string    `json:"host,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Started  time.Time `json:"started"`
	State    string    `json:"state"`
	Config   string    `json:"config,omitempty"`
}

// EncodeMember returns a member as JSON, without its ID, Epoch, and what each exchange may change.
func EncodeMember(m *fleet.Member) string {
	text, err := json.Marshal(about{
		Name: m.Name, Version: m.Version, Schema: m.Schema, Address: m.Address, Host: m.Host, Instance: m.Instance,
		Started: m.Started.UTC(), State: string(m.State), Config: m.Config,
	})
	if err != nil { // a time beyond the year 9999
		panic(err)
	}
	return string(text)
}

// DecodeMember returns the member that EncodeMember encoded. Members that a newer program wrote may have more fields.
func DecodeMember(id fleet.ID, epoch fleet.Epoch, text string) (*fleet.Member, error) {
	var a about
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return nil, fmt.Errorf("the ledger's row of proxy %s: %w", id, err)
	}
	return &fleet.Member{
		ID: id, Epoch: epoch, Name: a.Name, Version: a.Version, Schema: a.Schema, Address: a.Address, Host: a.Host, Instance: a.Instance,
		Started: a.Started, State: fleet.State(a.State), Config: a.Config,
	}, nil
}

// EncodeGrants returns an account's grants as a JSON array with an array for each: the proxy, its places, and the fields of its claim, in
// the order in which [claim] has them. Trailing zeros are left out.
func EncodeGrants(grants []fleet.Grant) string {
	rows := make([][]any, 0, len(grants))
	for i := range grants {
		g := &grants[i]
		row := []any{g.Proxy, g.Places}
		last := len(row)
		for _, field := range claim(&g.Claim) {
			if n, ok := field.(*int); ok {
				row = append(row, *n)
			} else {
				row = append(row, *field.(*float64))
			}
			if row[len(row)-1] != any(0) && row[len(row)-1] != any(0.0) {
				last = len(row)
			}
		}
		rows = append(rows, row[:max(last, minGrant)])
	}
	text, err := json.Marshal(rows)
	if err != nil { // a share that is not a number
		panic(err)
	}
	return string(text)
}

// minGrant is how many elements each grant has at least: PostgreSQL's trigger reads the proxy, the places and what it holds.
const minGrant = 4

// claim returns where a claim's fields are. New ones come last: programs of several versions may share a ledger.
func claim(c *fleet.Claim) []any {
	return []any{&c.Cap, &c.Holds, &c.Needs, &c.Wants, &c.Waiting, &c.Waited, &c.Floor, &c.Share}
}

// DecodeGrants returns the grants that EncodeGrants encoded.
func DecodeGrants(server, text string) ([]fleet.Grant, error) {
	var rows [][]json.RawMessage
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, fmt.Errorf("the ledger's row of server %s: %w", server, err)
	}
	grants := make([]fleet.Grant, len(rows))
	for i, row := range rows {
		fields := append([]any{&grants[i].Proxy, &grants[i].Places}, claim(&grants[i].Claim)...)
		if len(row) < minGrant {
			return nil, fmt.Errorf("the ledger's row of server %s: a grant has %d fields: it needs at least %d", server, len(row), minGrant)
		}
		for n := range min(len(row), len(fields)) {
			if err := json.Unmarshal(row[n], fields[n]); err != nil {
				return nil, fmt.Errorf("the ledger's row of server %s: field %d of a grant: %w", server, n+1, err)
			}
		}
	}
	return grants, nil
}

// CheckReport returns an error for a report that no ledger can keep.
func CheckReport(r *fleet.Report) error {
	if r.ID == "" {
		return fmt.Errorf("a report without a proxy's id")
	}
	for server, c := range r.Claims {
		for _, n := range []int{c.Cap, c.Holds, c.Needs, c.Wants, c.Waiting, c.Waited, c.Floor} {
			if n < 0 || n > math.MaxInt32 {
				return fmt.Errorf("a claim at server %s has the number %d: use a whole number from 0 to %d", server, n, math.MaxInt32)
			}
		}
		if math.IsNaN(c.Share) || math.IsInf(c.Share, 0) || c.Share < 0 {
			return fmt.Errorf("a claim at server %s has the share %v: use a number from 0", server, c.Share)
		}
	}
	return nil
}

// EncodeHistory returns a ledger's past epochs and departed proxies as JSON arrays.
func EncodeHistory(l *fleet.Ledger) (past, departed string) {
	epochs := make([][2]any, 0, len(l.Past))
	for _, p := range l.Past {
		epochs = append(epochs, [2]any{p.Epoch, p.Version})
	}
	proxies := make([][2]any, 0, len(l.Departed))
	for _, d := range l.Departed {
		proxies = append(proxies, [2]any{d.ID, d.Sequence})
	}
	a, _ := json.Marshal(epochs) // texts and whole numbers can always be encoded
	b, _ := json.Marshal(proxies)
	return string(a), string(b)
}

// DecodeHistory reads what EncodeHistory returned into a ledger.
func DecodeHistory(l *fleet.Ledger, past, departed string) error {
	var epochs, proxies [][2]json.RawMessage
	if err := errors.Join(json.Unmarshal([]byte(past), &epochs), json.Unmarshal([]byte(departed), &proxies)); err != nil {
		return fmt.Errorf("the head of the ledger: %w", err)
	}
	l.Past, l.Departed = nil, nil
	for _, row := range epochs {
		var p fleet.PastEpoch
		if err := errors.Join(json.Unmarshal(row[0], &p.Epoch), json.Unmarshal(row[1], &p.Version)); err != nil {
			return fmt.Errorf("the ledger's past epochs: %w", err)
		}
		l.Past = append(l.Past, p)
	}
	for _, row := range proxies {
		var d fleet.Departed
		if err := errors.Join(json.Unmarshal(row[0], &d.ID), json.Unmarshal(row[1], &d.Sequence)); err != nil {
			return fmt.Errorf("the ledger's departed proxies: %w", err)
		}
		l.Departed = append(l.Departed, d)
	}
	return nil
}
