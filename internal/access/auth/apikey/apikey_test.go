package apikey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

func TestNewKeys(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		key := New()
		if len(key) != Length || !strings.HasPrefix(key, Prefix) || !Valid(key) || seen[key] {
			t.Fatalf("bad key %q", key)
		}
		seen[key] = true
	}
}

// The checksum finds every wrong character, and every two that are swapped.
func TestMistypedKeys(t *testing.T) {
	key := New()
	for i := len(Prefix); i < len(key); i++ {
		wrong := []byte(key)
		if wrong[i] = 'a'; key[i] == 'a' {
			wrong[i] = 'b'
		}
		if Valid(string(wrong)) {
			t.Errorf("%q is valid, as %q is", wrong, key)
		}
		if j := i + 1; j < len(key) && key[i] != key[j] {
			wrong = []byte(key)
			wrong[i], wrong[j] = wrong[j], wrong[i]
			if Valid(string(wrong)) {
				t.Errorf("%q is valid, as %q is", wrong, key)
			}
		}
	}
	for _, text := range []string{"", Prefix, key[1:], key + "a", strings.ToUpper(key), key[:len(key)-1]} {
		if Valid(text) {
			t.Errorf("%q is valid", text)
		}
	}
}

func TestHash(t *testing.T) {
	hash := HashOf("abc")
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, appendix B.1
	if hash.String() != want {
		t.Error(hash)
	}
	if again, ok := ParseHash(want); !ok || again != hash {
		t.Error(again, ok)
	}
	for _, text := range []string{"", want[1:], want + "0", want[:len(want)-1] + "g", "sha512:" + want[7:]} {
		if _, ok := ParseHash(text); ok {
			t.Errorf("%q is a hash", text)
		}
	}
}

var start = time.Unix(1e9, 0).UTC()

// newMethod returns a method with keys, whose clock the test moves.
func newMethod(now *time.Time, keys ...Key) *Method {
	m := NewMethod(func() time.Time { return *now })
	m.SetTable(NewTable(keys, nil))
	return m
}

func TestAuthenticate(t *testing.T) {
	now, good, other, expired := start, New(), New(), New()
	m := newMethod(&now,
		Key{Name: "phone", Hash: HashOf(good), Tenant: "acme", Limits: limits.Limits{Sessions: 3}},
		Key{Name: "tv", Hash: HashOf(other), Services: []string{"tts"}},
		Key{Name: "old", Hash: HashOf(expired), Expires: start},
	)
	for _, c := range []struct {
		name, credential, service string
		key                       string
		status                    int
	}{
		{"good", good, "stt", "phone", 0},
		{"good for this service", other, "tts", "tv", 0},
		{"not for this service", other, "stt", "", 403},
		{"expired", expired, "stt", "", 401},
		{"unknown", New(), "stt", "", 401},
		{"mistyped", good[:len(good)-1] + "0", "stt", "", 401},
		{"only the prefix", Prefix, "stt", "", 401},
		{"a hash", HashOf(good).String(), "stt", "", -1},
		{"no key", "eyJhbGciOi", "stt", "", -1},
		{"nothing", "", "stt", "", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			who, err := m.Authenticate(t.Context(), &auth.Attempt{Service: c.service, Credential: c.credential})
			var denied *auth.Denied
			switch {
			case c.status == 0 && (err != nil || who.Key != c.key || who.Subject != c.key || who.Method != identity.MethodKeys):
				t.Errorf("%+v, %v", who, err)
			case c.status == -1 && !errors.Is(err, auth.ErrAbsent):
				t.Errorf("%+v, %v", who, err)
			case c.status > 0 && (who != nil || !errors.As(err, &denied) || denied.Code() != c.status):
				t.Errorf("%+v, %v", who, err)
			case c.status > 0 && c.credential != Prefix && strings.Contains(err.Error(), c.credential):
				t.Errorf("the log would show the key: %v", err)
			}
		})
	}
	who, _ := m.Authenticate(t.Context(), &auth.Attempt{Service: "stt", Credential: good})
	if who.Tenant != "acme" || who.Limits.Sessions != 3 || !who.Expires.IsZero() {
		t.Errorf("%+v", who)
	}
}

// A key that was removed, changed or replaced by another one of its name.
func TestRevoked(t *testing.T) {
	now, secret := start, New()
	phone := Key{Name: "phone", Hash: HashOf(secret), Tenant: "acme"}
	m := newMethod(&now, phone)
	who, err := m.Authenticate(t.Context(), &auth.Attempt{Service: "stt", Credential: secret})
	if err != nil {
		t.Fatal(err)
	}
	change := func(keys ...Key) { m.SetTable(NewTable(keys, m.Table())) }
	expect := func(what string, want time.Time, revoked bool) {
		t.Helper()
		if expires, reason := m.Revoked("stt", who); !expires.Equal(want) || reason != "" != revoked {
			t.Errorf("%s: %v, %q", what, expires, reason)
		}
	}
	expect("unchanged", time.Time{}, false)
	change(phone)
	if again, _ := m.Authenticate(t.Context(), &auth.Attempt{Service: "stt", Credential: secret}); again != who {
		t.Error("a key that has not changed has another identity")
	}
	later := phone
	later.Expires, later.Limits.Sessions = start.Add(time.Hour), 5
	change(later)
	expect("expires later", later.Expires, false)
	now = later.Expires
	expect("expired", time.Time{}, true)
	now = start
	change(Key{Name: "phone", Hash: phone.Hash, Services: []string{"tts"}})
	expect("no longer for the service", time.Time{}, true)
	change()
	expect("removed", time.Time{}, true)
	change(Key{Name: "phone", Hash: HashOf(New())})
	expect("another key of the same name", time.Time{}, true)
	change(phone)
	expect("the same key once more", time.Time{}, true)
}

// An API key takes less than 5 us, whether it is known or not.
func BenchmarkAuthenticate(b *testing.B) {
	keys := make([]Key, 10_000)
	secrets := make([]string, len(keys))
	for i := range keys {
		secrets[i] = New()
		keys[i] = Key{Name: fmt.Sprint("key-", i), Hash: HashOf(secrets[i]), Tenant: "acme"}
	}
	m := NewMethod(time.Now)
	m.SetTable(NewTable(keys, nil))
	unknown := New()
	for _, c := range []struct {
		name   string
		secret func(i int) string
	}{
		{"known", func(i int) string { return secrets[i%len(secrets)] }},
		{"unknown", func(int) string { return unknown }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := m.Authenticate(context.Background(), &auth.Attempt{Service: "stt", Credential: c.secret(i)}); (err == nil) != (c.name == "known") {
					b.Fatal(err)
				}
			}
		})
	}
}
