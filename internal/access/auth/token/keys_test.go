package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

// fakeSource is a source that the test plays.
type fakeSource struct {
	mu       sync.Mutex
	document []byte
	err      error
	takes    time.Duration
	readings int
}

func (s *fakeSource) String() string { return "https://id.example.org/jwks.json" }

func (s *fakeSource) read(ctx context.Context) ([]byte, time.Duration, error) {
	s.mu.Lock()
	takes, document, err := s.takes, s.document, s.err
	s.readings++
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return document, freshFor, err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// answer sets what the source says from now on.
func (s *fakeSource) answer(document []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.document, s.err = document, err
}

func (s *fakeSource) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readings
}

// started returns keys that are read from a source, and the log. change may change them before.
func started(t *testing.T, from source, change ...func(*Keys)) (*Keys, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	k := newKeys(from, slog.New(slog.NewTextHandler(&out, nil)), nil)
	for _, f := range change {
		f(k)
	}
	var running sync.WaitGroup
	running.Go(k.run)
	t.Cleanup(func() { k.cancel(); running.Wait() })
	return k, &out
}

func has(k *Keys, id string) error {
	_, _, err := k.find(context.Background(), new(auth.Attempt).Wait, id, "ES256")
	return err
}

// The first client waits for the key set, a new key of the issuer is found immediately, and one that is gone is no longer accepted.
func TestKeysRotate(t *testing.T) {
	first, second := tokentest.NewSigner(t, "first", "ES256"), tokentest.NewSigner(t, "second", "ES256")
	synctest.Test(t, func(t *testing.T) {
		from := &fakeSource{document: tokentest.KeySet(first.JWK()), takes: time.Second}
		k, _ := started(t, from)
		begun := time.Now()
		if err := has(k, "first"); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		time.Sleep(minPause)
		from.answer(tokentest.KeySet(first.JWK(), second.JWK()), nil)
		if err := has(k, "second"); err != nil || from.count() != 2 {
			t.Errorf("the new key: %v after %d readings", err, from.count())
		}
		from.answer(tokentest.KeySet(second.JWK()), nil)
		if err := has(k, "first"); err != nil {
			t.Errorf("the old key, before the key set is read again: %v", err)
		}
		time.Sleep(freshFor + time.Second)
		if err := has(k, "first"); err == nil {
			t.Error("the old key is still accepted")
		}
	})
}

// Tokens with unknown keys, however many, have the key set read once in minPause.
func TestUnknownKeysAreBounded(t *testing.T) {
	s := tokentest.NewSigner(t, "known", "ES256")
	synctest.Test(t, func(t *testing.T) {
		from := &fakeSource{document: tokentest.KeySet(s.JWK()), takes: 10 * time.Millisecond}
		k, _ := started(t, from)
		begun := time.Now()
		for i := range 1000 {
			var clients sync.WaitGroup
			for j := range 5 {
				clients.Go(func() {
					if err := has(k, fmt.Sprintf("unknown-%d-%d", i, j)); err == nil || !strings.Contains(err.Error(), "no key") {
						t.Errorf("%v", err)
					}
				})
			}
			clients.Wait()
			time.Sleep(30 * time.Millisecond)
		}
		if most := int(time.Since(begun)/minPause) + 1; from.count() > most {
			t.Errorf("%d readings in %v, want at most %d", from.count(), time.Since(begun), most)
		}
	})
}

// While the issuer is unreachable, or answers nonsense, the keys from before stay in force, and the log shows it once.
func TestKeysOutage(t *testing.T) {
	s := tokentest.NewSigner(t, "known", "ES256")
	for name, broken := range map[string]struct {
		document []byte
		err      error
		want     string
	}{
		"away":     {nil, errors.New("connection refused"), "connection refused"},
		"no JSON":  {[]byte("<html>"), nil, "not a JSON object"},
		"no keys":  {[]byte(`{"keys":[]}`), nil, "no usable key"},
		"empty":    {nil, nil, "not a JSON object"},
		"huge":     {bytes.Repeat([]byte(" "), maxDocument+1), nil, "larger than"},
		"null":     {[]byte(`null`), nil, "no usable key"},
		"a secret": {[]byte(`{"keys":[{"kty":"oct","k":"AAAA","kid":"known"}]}`), nil, "no usable key"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &fakeSource{document: tokentest.KeySet(s.JWK())}
				k, out := started(t, from)
				synctest.Wait()
				from.answer(broken.document, broken.err)
				time.Sleep(time.Hour)
				if err := has(k, "known"); err != nil {
					t.Errorf("the old key: %v", err)
				}
				if n := from.count(); n < 60 || n > 80 {
					t.Errorf("%d readings in an hour, want about one a minute", n)
				}
				from.answer(tokentest.KeySet(s.JWK()), nil)
				if status := k.Status(); !strings.Contains(status.Failure, broken.want) || status.Keys != 1 || time.Since(status.Read) < 50*time.Minute {
					t.Errorf("%+v", status)
				}
				time.Sleep(2 * time.Minute)
				if status := k.Status(); status.Failure != "" || time.Since(status.Read) > 2*time.Minute {
					t.Errorf("%+v", status)
				}
				log := out.String()
				if strings.Count(log, "tokens are verified with the keys from before") != 1 || strings.Count(log, "can be read again") != 1 || !strings.Contains(log, broken.want) {
					t.Errorf("the log says:\n%s", log)
				}
			})
		})
	}
}

// A file is read as often as ever when it has been bad for a while: a key that leaves it is soon revoked.
func TestFileAfterOutage(t *testing.T) {
	first, second := tokentest.NewSigner(t, "first", "ES256"), tokentest.NewSigner(t, "second", "ES256")
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(document []byte) {
		if err := os.WriteFile(path, document, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write(tokentest.KeySet(first.JWK(), second.JWK()))
		k, _ := started(t, fileSource(path))
		synctest.Wait()
		fit, _, err := k.find(t.Context(), new(auth.Attempt).Wait, "first", "ES256")
		if err != nil {
			t.Fatal(err)
		}
		write([]byte("<html>"))
		time.Sleep(3 * time.Minute)
		write(tokentest.KeySet(second.JWK()))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !k.revoked(fit[0].thumbprint) {
			t.Errorf("the key that has left the file is good: %+v", k.Status())
		}
	})
}

// Without any key set, clients hear at once that tokens cannot be judged, and it is tried again soon.
func TestKeysUnavailable(t *testing.T) {
	s := tokentest.NewSigner(t, "known", "ES256")
	synctest.Test(t, func(t *testing.T) {
		from := &fakeSource{err: errors.New("connection refused")}
		k, _ := started(t, from)
		synctest.Wait()
		begun := time.Now()
		err := has(k, "known")
		var unavailable *Unavailable
		if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "connection refused") || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		from.answer(tokentest.KeySet(s.JWK()), nil)
		time.Sleep(firstRetry)
		if err := has(k, "known"); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

// An issuer that does not answer holds a client up for maxWait at most.
func TestKeysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := started(t, &fakeSource{takes: time.Hour})
		begun := time.Now()
		if err := has(k, "known"); err == nil || time.Since(begun) != maxWait {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		time.Sleep(readTimeout)
		if status := k.Status(); status.Failure == "" {
			t.Errorf("%+v", status)
		}
	})
}

// A panic while the key set is read ends neither the process nor the reading.
func TestKeysPanic(t *testing.T) {
	s := tokentest.NewSigner(t, "known", "ES256")
	synctest.Test(t, func(t *testing.T) {
		from := &panicking{fakeSource{document: tokentest.KeySet(s.JWK())}}
		k := newKeys(from, slog.New(slog.DiscardHandler), panics.NewGuard(slog.New(slog.DiscardHandler)))
		var running sync.WaitGroup
		running.Go(k.run)
		defer func() { k.cancel(); running.Wait() }()
		if err := has(k, "known"); err == nil {
			t.Error("there is a key")
		}
		time.Sleep(lastRetry)
		if err := has(k, "known"); err != nil {
			t.Error(err)
		}
	})
}

// panicking is a source whose first reading panics.
type panicking struct{ fakeSource }

func (s *panicking) read(ctx context.Context) ([]byte, time.Duration, error) {
	if s.count() == 0 {
		s.readings++
		panic("on purpose")
	}
	return s.fakeSource.read(ctx)
}

// Services with the same key set share it, and one that no service uses ends.
func TestKeySets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sets := NewKeySets(slog.New(slog.DiscardHandler), nil, nil)
		a, b := sets.Keys("file:/nonexistent/a.json"), sets.Keys("file:/nonexistent/b.json")
		if sets.Keys("file:/nonexistent/a.json") != a || a == b {
			t.Error("the same key set exists twice, or two are one")
		}
		sets.Keep(map[string]bool{"file:/nonexistent/a.json": true})
		if a.ctx.Err() != nil || b.ctx.Err() == nil {
			t.Error("the wrong key set has ended")
		}
		sets.Close()
		if a.ctx.Err() == nil || sets.Keys("file:/nonexistent/c.json").ctx.Err() == nil {
			t.Error("a key set is read after Close")
		}
	})
}

// A client that has to wait for the key set says so before, and does not wait if too many do.
func TestKeysTooManyWait(t *testing.T) {
	first := tokentest.NewSigner(t, "first", "ES256")
	synctest.Test(t, func(t *testing.T) {
		k, _ := started(t, &fakeSource{document: tokentest.KeySet(first.JWK()), takes: time.Second})
		crowded := errors.New("crowded")
		begun := time.Now()
		_, _, err := k.find(context.Background(), func() error { return crowded }, "first", "ES256")
		if !errors.Is(err, crowded) || time.Since(begun) > 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := has(k, "first"); err != nil {
			t.Error(err)
		}
		_, _, err = k.find(context.Background(), func() error { t.Error("a known key is waited for"); return nil }, "first", "ES256")
		if err != nil {
			t.Error(err)
		}
	})
}

// A token is revoked once its key has been missing for a while from what is read. Readings that fail remove nothing, and a key that comes back in
// time was never gone.
func TestKeyLeavesSet(t *testing.T) {
	first, second := tokentest.NewSigner(t, "first", "ES256"), tokentest.NewSigner(t, "second", "ES256")
	both, one := tokentest.KeySet(first.JWK(), second.JWK()), tokentest.KeySet(second.JWK())
	synctest.Test(t, func(t *testing.T) {
		from := &fakeSource{document: both}
		told := 0
		k, _ := started(t, from, func(k *Keys) { k.removed = func() { told++ } })
		v := NewVerifier(Options{Keys: k, Algorithms: []string{"ES256"}})
		who, err := v.Authenticate(t.Context(), &auth.Attempt{Credential: first.Sign(tokentest.Fields{"exp": time.Now().Add(24 * time.Hour).Unix()})})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(after time.Duration, want string, tellings int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if _, reason := v.Revoked("", who); reason != want || told != tellings {
				t.Errorf("%q, told %d times; want %q, %d times", reason, told, want, tellings)
			}
		}
		from.answer(nil, errors.New("away"))
		expect(time.Hour, "", 1) // that there are keys
		from.answer(one, nil)
		expect(time.Minute-time.Second, "", 1)
		from.answer(both, nil)
		expect(time.Hour, "", 1)
		from.answer(one, nil)
		for before := from.count(); from.count() == before; synctest.Wait() { // until it is missing
			time.Sleep(time.Second)
		}
		from.answer(nil, errors.New("away"))
		expect(time.Hour, "", 1)
		from.answer(one, nil)
		expect(2*time.Minute, "the key that signed the token is no longer valid", 2)
		expect(24*time.Hour, "the credential has expired", 2)
	})
}
