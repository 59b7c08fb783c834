package configtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// CheckEarlier checks a store whose database was made and filled by an earlier version, one revision for each line, and migrated:
//
//	services stt (path /v1, balance hash, hash-by header:A) and plain (path /v2, balance hash)
//	stt: hash-by header:B, dial-parallel 5, message-rate 10/s
//	plain: dial-parallel 5
//	a tenant acme with message-rate 1/s
func CheckEarlier(t *testing.T, s config.Store) {
	t.Helper()
	snapshot, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, content config.Content, stt string) {
		t.Helper()
		if got := [2]string{content.Services["stt"].Balance, content.Services["plain"].Balance}; got != [2]string{stt, "hash:client"} {
			t.Errorf("%s: the balances are %q", what, got)
		}
	}
	check("now", snapshot.Content(), "hash:header:B")
	for version, stt := range map[string]string{"1": "hash:header:A", "2": "hash:header:B", "4": "hash:header:B"} {
		content, err := s.At(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		check("version "+version, content, stt)
	}
	history, err := s.History(t.Context(), 1)
	if err != nil || len(history) != 1 {
		t.Fatalf("the history: %v, %v", history, err)
	}
	lines := strings.Split(history[0].Edits.String(), "\n")
	for _, want := range []string{
		"service stt: balance hash -> hash:header:B", "service stt: hash-by header:B -> (none)", "service stt: message-rate 10/s -> (none)",
		"service plain: dial-parallel 5 -> (none)", "tenant acme: message-rate 1/s -> (none)",
	} {
		if !slices.Contains(lines, want) || history[0].Who != "wsbouncer migrate" || snapshot.Version() != "5" {
			t.Errorf("version %s is by %s: %q lacks %q", snapshot.Version(), history[0].Who, lines, want)
		}
	}
	_, err = s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Set, Kind: config.KindService, Name: "plain", Values: config.Values{"balance": "hash:query:user"}},
	}})
	if err != nil {
		t.Error(err)
	}
}
