package config

import (
	"maps"
	"strings"
	"testing"
)

// A field that earlier versions had is refused with what to use instead, in each way that leads to [Content.Set].
func TestRemovedFields(t *testing.T) {
	for kind, fields := range map[Kind][]string{
		KindService: {"hash-by", "dial-parallel", "reset-timeout", "tcp-user-timeout", "message-rate"}, KindTenant: {"message-rate"},
	} {
		for _, field := range fields {
			content := NewContent()
			problems := content.Set(kind, "x", Values{field: "1"})
			if want := string(kind) + " x: the field " + field + " no longer exists: "; len(problems) != 1 || !strings.HasPrefix(problems.Error(), want) {
				t.Errorf("%v; want %s...", problems, want)
			}
		}
	}
	content := NewContent()
	if problems := content.Set(KindKey, "x", Values{"message-rate": "1/s"}); len(problems) > 0 {
		t.Error(problems)
	}
}

// What an earlier version has stored means what it meant then.
func TestFromEarlier(t *testing.T) {
	for _, c := range []struct{ stored, want Values }{
		{Values{"balance": "hash"}, Values{"balance": "hash"}},
		{Values{"balance": "hash", "hash-by": "client"}, Values{"balance": "hash:client"}},
		{Values{"balance": "hash", "hash-by": "header:X-User", "queue": "7"}, Values{"balance": "hash:header:X-User", "queue": "7"}},
		{Values{"balance": "random-two", "hash-by": "query:a"}, Values{"balance": "random-two"}},
		{Values{"hash-by": "query:a", "dial-parallel": "5", "message-rate": "1/s"}, Values{}},
		{Values{"balance": "hash:query:a"}, Values{"balance": "hash:query:a"}},
	} {
		if got := FromEarlier(KindService, c.stored); !maps.Equal(got, c.want) {
			t.Errorf("%v is %v now; want %v", c.stored, got, c.want)
		}
	}
	if got := FromEarlier(KindKey, Values{"message-rate": "1/s"}); len(got) != 1 {
		t.Errorf("a key is %v", got)
	}
}
