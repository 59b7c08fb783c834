package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/config"
)

// printedKey finds the key that a command prints.
var printedKey = regexp.MustCompile(`(?m)^Key: (wsb_[a-z2-7]{38})$`)

// A key is printed once; the configuration has its hash, and no command prints the key again.
func TestKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		out := s.must("key add phone --tenant acme --services stt --session-limit 5")
		if !strings.HasPrefix(out, "key phone: added (tenant acme, hash (hidden), services stt, session-limit 5)\nVersion 4 -> 5\nKey: ") {
			t.Errorf("it prints\n%s", out)
		}
		found := printedKey.FindStringSubmatch(out)
		if len(found) != 2 || !apikey.Valid(found[1]) {
			t.Fatalf("it prints no key:\n%s", out)
		}
		var made struct{ Key, Version string }
		if err := json.Unmarshal([]byte(s.must("key add tv --expires 2099-12-31 -o json")), &made); err != nil || !apikey.Valid(made.Key) {
			t.Errorf("%+v, %v", made, err)
		}
		same(t, "the list", s.must("key ls"), `NAME   TENANT  EXPIRES               SERVICES
phone  acme    never                 stt
tv     -       2099-12-31T00:00:00Z  all`)
		var exported map[string]any
		if err := json.Unmarshal([]byte(s.must("config show -o json")), &exported); err != nil {
			t.Fatal(err)
		}
		if text := s.must("config export"); !strings.Contains(text, apikey.HashOf(found[1]).String()) {
			t.Errorf("the configuration lacks the hash:\n%s", text)
		}
		for _, command := range []string{"key show phone", "key show phone -o json", "key ls -o yaml", "key ls -o wide", "config export", "config history", "config show"} {
			if text := s.must(command); strings.Contains(text, found[1]) || command != "config export" && strings.Contains(text, "sha256:") {
				t.Errorf("%s shows a secret:\n%s", command, text)
			}
		}
		same(t, "set", s.must("key set phone --session-limit 7 --services= --yes"), "key phone: services stt -> (none)\nkey phone: session-limit 5 -> 7\nVersion 6 -> 7")
		same(t, "revoke", s.must("key revoke phone tv --why lost --dry-run"),
			"key phone: removed (tenant acme, hash (hidden), session-limit 7)\nkey tv: removed (hash (hidden), expires 2099-12-31T00:00:00Z)\n"+
				"Dry run: nothing was changed. The configuration has version 7.")
		if out := s.must("key add dry --dry-run"); strings.Contains(out, "Key:") {
			t.Errorf("a dry run prints a key:\n%s", out)
		}
		s.must("key revoke phone --why lost")
		if out := s.must("config history --limit 1"); !strings.Contains(out, "lost") || !strings.Contains(out, "key phone: removed") {
			t.Errorf("the history says\n%s", out)
		}
		s.refuse(
			refusal{[]string{"key", "add", "tv"}, 1, "the key tv already exists: use 'wsbouncer key set tv' to change it"},
			refusal{[]string{"key", "revoke", "phone"}, 1, `unknown key "phone"`},
			refusal{[]string{"key", "add", "x", "--hash", "sha256:12"}, 2, "use sha256: and 64 hexadecimal digits"},
			refusal{[]string{"key", "set", "tv"}, 2, "nothing to change"},
			refusal{[]string{"key", "set", "tv", "--expires", "2020-01-01"}, 2, "is in the past: use 'wsbouncer key revoke'"},
		)
	})
}

// A key that another party has made is stored by its hash.
func TestKeyByItsHash(t *testing.T) {
	s := onDatabase(t).begin()
	hash := apikey.HashOf("a key of another system").String()
	if out := s.must("key add old --hash " + hash); strings.Contains(out, "Key:") {
		t.Errorf("it prints a key:\n%s", out)
	}
	s.refuse(refusal{[]string{"key", "add", "again", "--hash", hash}, 2, "already has this hash"})
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 11, 22, 17, 30, 5, 600, time.UTC)
	for text, want := range map[string]string{
		"2027-01-31T01:00:00+01:00": "2027-01-31T00:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z", "30d": "2026-12-22T17:30:05Z",
		"12h": "2026-11-23T05:30:05Z", "1h30m": "2026-11-22T19:00:05Z",
	} {
		if at, ok := expiry(text, now); !ok || at.Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v; want %s", text, at, ok, want)
		}
	}
	for _, text := range []string{"x", "d", "0d", "-1d", "1.5d", "1d2h", "99999d", "-1h", "0", "tomorrow", "2027-13-01"} {
		if at, ok := expiry(text, now); ok {
			t.Errorf("%q is %v", text, at)
		}
	}
	rows := keyRows(&config.Content{Keys: map[string]config.Key{"old": {Expires: now}, "new": {Expires: now.Add(time.Second)}}}, now)
	if rows.cells[0][2] != "2026-11-22T17:30:06Z" || rows.cells[1][2] != "2026-11-22T17:30:05Z (expired)" {
		t.Errorf("%q", rows.cells)
	}
}
