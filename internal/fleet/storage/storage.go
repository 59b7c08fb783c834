// Package storage finds what an exchange changes in a ledger, so that a store writes only that. It is what stores share: no I/O.
package storage

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
)

// NewLedger returns an empty ledger.
func NewLedger() *fleet.Ledger {
	return &fleet.Ledger{Members: make(map[fleet.ID]*fleet.Member), Accounts: make(map[string]*fleet.Account)}
}

// NewEpoch returns an epoch that has never been.
func NewEpoch() fleet.Epoch { return fleet.Epoch(strings.ToLower(rand.Text()[:16])) }

// Changes are what differs between a ledger before and after a call.
type Changes struct {
	Before, After *fleet.Ledger
	// Ledger: identity, epochs, who has departed, whether it is settled, or the version.
	Ledger bool
	// Members are those that are new or differ in more than Seen, Beats, Sequence and Sessions. Removed are gone.
	Members, Removed []fleet.ID
	// Accounts are the servers whose accounts are new or differ. Gone no longer have one.
	Accounts, Gone []string
}

// Exchange carries out a report on a copy of the ledger, and returns the answer and what differs. at is the store's time.
func Exchange(l *fleet.Ledger, r *fleet.Report, identity string, fresh fleet.Epoch, at time.Time) (*fleet.Answer, *Changes) {
	after := l.Clone()
	answer := after.Exchange(r, identity, fresh)
	if m := after.Members[r.ID]; m != nil && !answer.Stale {
		m.Seen = at
	}
	for i := range answer.Members {
		if answer.Members[i].ID == r.ID {
			answer.Members[i].Seen = at
		}
	}
	return answer, compare(l, after)
}

// Forget removes a member on a copy of the ledger, and returns what differs; nil if there is none.
func Forget(l *fleet.Ledger, id fleet.ID, identity string, fresh fleet.Epoch) *Changes {
	after := l.Clone()
	if !after.Forget(id, identity, fresh) {
		return nil
	}
	return compare(l, after)
}

func compare(before, after *fleet.Ledger) *Changes {
	c := &Changes{Before: before, After: after}
	c.Ledger = before.Identity != after.Identity || before.Epoch != after.Epoch || before.Settled != after.Settled ||
		before.Version != after.Version || !slices.Equal(before.Past, after.Past) || !slices.Equal(before.Departed, after.Departed)
	for id, m := range after.Members {
		if b := before.Members[id]; b == nil || Lasting(b) != Lasting(m) {
			c.Members = append(c.Members, id)
		}
	}
	for id := range before.Members {
		if after.Members[id] == nil {
			c.Removed = append(c.Removed, id)
		}
	}
	for server, a := range after.Accounts {
		b := before.Accounts[server]
		if b == nil || b.Version != a.Version || !slices.Equal(b.Grants, a.Grants) {
			c.Accounts = append(c.Accounts, server)
		}
	}
	for server := range before.Accounts {
		if after.Accounts[server] == nil {
			c.Gone = append(c.Gone, server)
		}
	}
	slices.Sort(c.Members)
	slices.Sort(c.Removed)
	slices.Sort(c.Accounts)
	slices.Sort(c.Gone)
	return c
}

// Lasting returns a member without what each exchange may change.
func Lasting(m *fleet.Member) fleet.Member {
	c := *m
	c.Seen, c.Heartbeats, c.Sequence, c.Sessions = time.Time{}, 0, 0, 0
	c.Started = c.Started.UTC().Round(0) // without a monotonic clock's reading
	return c
}

// Anything reports whether there is more to write than a heartbeat.
func (c *Changes) Anything() bool {
	return c.Ledger || len(c.Members) > 0 || len(c.Removed) > 0 || len(c.Accounts) > 0 || len(c.Gone) > 0
}

// Woken returns the proxies that should make an exchange before their next heartbeat, except the one that made the changes, by ID.
func (c *Changes) Woken(by fleet.ID) []fleet.ID {
	var woken []fleet.ID
	for _, server := range c.Accounts {
		a := c.After.Accounts[server]
		if before := c.Before.Accounts[server]; before == nil || before.Version != a.Version { // others must know
			woken = append(woken, a.Wakes(by)...)
		}
	}
	slices.Sort(woken)
	return slices.Compact(woken)
}

// about is what a member says of itself, as stores keep it.
type about struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Schema   int64     `json:"schema"`
	Address  string    `json:"address,omitempty"`
	Host     string    `json:"host,omitempty"`
	Process  string    `json:"process,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Started  time.Time `json:"started"`
	State    string    `json:"state"`
	Config   string    `json:"config,omitempty"`
}

// mostText is how many bytes a text of a member has at most. An address may be as long as URLs are.
const mostText = 2048

// EncodeMember returns a member as JSON, without its ID, Epoch, and what each exchange may change.
func EncodeMember(m *fleet.Member) string {
	text, err := json.Marshal(about{
		Name: m.Name, Version: m.Version, Schema: m.Schema, Address: m.Address, Host: m.Host, Process: m.Process, Instance: m.Instance,
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
	// People see these. No proxy writes what is changed here, but others may have rights to the tables.
	for _, text := range []*string{&a.Name, &a.Version, &a.Address, &a.Host, &a.State, &a.Config} {
		*text = printable.Text(*text, mostText)
	}
	return &fleet.Member{
		ID: id, Epoch: epoch, Name: a.Name, Version: a.Version, Schema: a.Schema, Address: a.Address, Host: a.Host, Process: a.Process, Instance: a.Instance,
		Started: a.Started, State: fleet.State(a.State), Config: a.Config,
	}, nil
}

// minGrant is how many elements each grant has at least: the triggers of the databases read the proxy, its places, its cap, and what it holds.
const minGrant = 4

// numbers returns where the whole numbers of a grant are, in the order in which they are kept; the share and Open come after them. New fields
// come last: programs of several versions may share a ledger.
func numbers(g *fleet.Grant) [8]*int {
	c := &g.Claim
	return [8]*int{&g.Places, &c.Cap, &c.Holds, &c.Needs, &c.Wants, &c.Waiting, &c.Waited, &c.Floor}
}

// EncodeGrants returns an account's grants as a JSON array with an array for each: the proxy, its places, and the fields of its claim.
// Zeros at the end are left out.
func EncodeGrants(grants []fleet.Grant) string {
	b := make([]byte, 0, 2+48*len(grants))
	b = append(b, '[')
	for i := range grants {
		g := &grants[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `["`...), g.Proxy...), '"')
		fields := numbers(g)
		last := len(fields) - 1
		for g.Claim.Share == 0 && g.Claim.Open == 0 && last+2 > minGrant && *fields[last] == 0 {
			last--
		}
		for _, field := range fields[:last+1] {
			b = strconv.AppendInt(append(b, ','), int64(*field), 10)
		}
		if g.Claim.Share != 0 || g.Claim.Open != 0 {
			b = strconv.AppendFloat(append(b, ','), g.Claim.Share, 'g', -1, 64)
		}
		if g.Claim.Open != 0 {
			b = strconv.AppendInt(append(b, ','), int64(g.Claim.Open), 10)
		}
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

// DecodeGrants returns the grants that EncodeGrants encoded, or that were written by hand. A hundred proxies may read a hundred grants each a
// second, so it parses what EncodeGrants writes by itself.
func DecodeGrants(server, text string) ([]fleet.Grant, error) {
	var grants []fleet.Grant
	rest, ok := strings.CutPrefix(text, "[")
	for ok && strings.HasPrefix(rest, "[") {
		var row string
		if row, rest, ok = strings.Cut(rest[1:], "]"); !ok {
			break
		}
		rest = strings.TrimPrefix(rest, ",")
		var g fleet.Grant
		if ok = decodeGrant(&g, row); ok {
			grants = append(grants, g)
		}
	}
	if !ok || rest != "]" {
		return nil, fmt.Errorf("the ledger's row of server %s is damaged: %.200q", server, text)
	}
	return grants, nil
}

func decodeGrant(g *fleet.Grant, row string) bool {
	proxy, row, _ := strings.Cut(row, ",")
	if len(proxy) < 3 || proxy[0] != '"' || proxy[len(proxy)-1] != '"' {
		return false
	}
	g.Proxy = fleet.ID(strings.Clone(proxy[1 : len(proxy)-1]))
	var field string
	for i, number := range numbers(g) {
		if row == "" {
			return i+1 >= minGrant
		}
		field, row, _ = strings.Cut(row, ",")
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return false
		}
		*number = n
	}
	if row == "" {
		return true
	}
	field, row, _ = strings.Cut(row, ",")
	var err error
	if g.Claim.Share, err = strconv.ParseFloat(strings.TrimSpace(field), 64); err != nil || row == "" {
		return err == nil
	}
	field, _, _ = strings.Cut(row, ",")
	g.Claim.Open, err = strconv.Atoi(strings.TrimSpace(field))
	return err == nil
}

// plain are the ids that need no quoting anywhere.
var plain = regexp.MustCompile(`^[^][",\\[:cntrl:]]{1,64}$`)

// CheckReport returns an error for a report that no ledger can keep.
func CheckReport(r *fleet.Report) error {
	if !plain.MatchString(string(r.ID)) {
		return fmt.Errorf("a report of a proxy with the id %q: use 1 to 64 characters, without quotes, brackets, commas and control characters", r.ID)
	}
	for server, c := range r.Claims {
		for _, n := range []int{max(c.Cap, -c.Cap), c.Holds, c.Needs, c.Wants, c.Waiting, c.Waited, c.Floor, c.Open} {
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

// EncodeHistory returns a ledger's past epochs and departed proxies as JSON arrays. New fields come last in a row, and programs that do not
// know them leave them out.
func EncodeHistory(l *fleet.Ledger) (past, departed string) {
	epochs := make([][2]any, 0, len(l.Past))
	for _, p := range l.Past {
		epochs = append(epochs, [2]any{p.Epoch, p.Version})
	}
	proxies := make([][]any, 0, len(l.Departed))
	for _, d := range l.Departed {
		row := []any{d.ID, d.Sequence}
		if d.Past {
			row = append(row, true)
		}
		proxies = append(proxies, row)
	}
	a, _ := json.Marshal(epochs) // texts and whole numbers can always be encoded
	b, _ := json.Marshal(proxies)
	return string(a), string(b)
}

// DecodeHistory reads what EncodeHistory returned into a ledger.
func DecodeHistory(l *fleet.Ledger, past, departed string) error {
	var epochs [][2]json.RawMessage
	var proxies [][3]json.RawMessage
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
		if row[2] != nil {
			if err := json.Unmarshal(row[2], &d.Past); err != nil {
				return fmt.Errorf("the ledger's departed proxies: %w", err)
			}
		}
		l.Departed = append(l.Departed, d)
	}
	return nil
}
