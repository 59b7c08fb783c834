package secret

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"ws://10.0.0.5:2700/stt?model=en&keywords=a&max_tokens=5": "ws://10.0.0.5:2700/stt?model=en&keywords=a&max_tokens=5",
		"wss://h/?api_key=hush&model=en":                          "wss://h/?api_key=(hidden)&model=en",
		"wss://h/?api%5Fkey=hush":                                 "wss://h/?api%5Fkey=(hidden)",
		"wss://h/?%zz=hush":                                       "wss://h/?%zz=(hidden)",
		"wss://h/?api_key=env:KEY&token=file%3A%2Fetc%2Fx":        "wss://h/?api_key=env:KEY&token=file%3A%2Fetc%2Fx",
		"wss://h/?Token=hush&sig=hush&xi-api-key=hush&passwd=":    "wss://h/?Token=(hidden)&sig=(hidden)&xi-api-key=(hidden)&passwd=",
		"ws://me:hush@h/a":                                        "ws://(hidden)@h/a",
		"ws://me:hu/sh@h/a":                                       "ws://(hidden)@h/a",
		"ws://h/a@b?mail=a@b":                                     "ws://h/a@b?mail=a@b",
		"/health?token=hush":                                      "/health?token=(hidden)",
		"10.0.0.5:2700/?key=hush":                                 "10.0.0.5:2700/?key=(hidden)",
		"":                                                        "",
		"user:hush@h:80":                                          "(hidden)@h:80",
		"hush@h":                                                  "(hidden)@h",
		"user:hush@ws://h":                                        "(hidden)@ws://h",
		"ws:/user:hush@h:80":                                      "(hidden)@h:80",
		"ws:///user:hush@h":                                       "ws://(hidden)@h",
		"ws://h/#api_key=hush":                                    "ws://h/#(hidden)",
		"ws://h/?a=b#hush":                                        "ws://h/?a=b#(hidden)",
		"h?key=hush&u=http://x":                                   "h?key=(hidden)&u=http://x",
		"ws://h/?x=1;api_key=hush;hush&y=2":                       "ws://h/?x=1;api_key=(hidden)&y=2",
		"ws://h/?x=1;api%5Fkey=hush":                              "ws://h/?x=1;api%5Fkey=(hidden)",
		"ws://h/?x=1;y=2;key=env:KEY&z=;":                         "ws://h/?x=1;y=2;key=env:KEY&z=;",
	} {
		if got := URL(text); got != want {
			t.Errorf("%s is shown as %s; want %s", text, got, want)
		}
	}
	err := Error(&url.Error{Op: "Get", URL: "http://h/?key=hush", Err: errors.New("refused")})
	if err.Error() != `Get "http://h/?key=(hidden)": refused` {
		t.Error(err)
	}
}

// A header is shown whole, but for what may be a secret itself.
func TestHeaderIsShown(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer env:X": "Bearer env:X", "file:/a": "file:/a", "hush": "(hidden)", "": "", "hush7 env:X": "(hidden) env:X", "a b env:X": "(hidden) env:X",
	} {
		if got := Header(value); got != want {
			t.Errorf("%q is shown as %q; want %q", value, got, want)
		}
	}
	if Literal("ws://h?api_key=(hidden)") != "api_key" || Placeholder("ws://(hidden)@h") != "user" {
		t.Error("what is shown instead of a secret passes for a reference")
	}
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{
		"ws://h/?api_key=hush": "api_key", "ws://h/?x=1;api_key=hush": "api_key", "ws://h/?x=1;y=2&z=3;pass=hush;a=b": "pass",
		"ws://h/?x=1;y=2": "", "ws://h/?x=1;api_key=env:KEY": "", "ws://h/?key=env:KEY&y=1": "", "ws://h/;key=x": "",
	} {
		if got := Literal(text); got != want {
			t.Errorf("the secret in %s is %q; want %q", text, got, want)
		}
	}
}

// The configuration reads what the settings name, and nothing else, however it is written.
func TestSource(t *testing.T) {
	root := t.TempDir()
	allowed, outside := filepath.Join(root, "secrets"), filepath.Join(root, "private")
	for _, directory := range []string{allowed, filepath.Join(allowed, "..data"), outside} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(allowed, "..data", "token"): "from a file+&\n", filepath.Join(outside, "token"): "hush", filepath.Join(allowed, "large"): strings.Repeat("x", maxSecret+1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"token": filepath.Join("..data", "token"), "escapes": filepath.Join("..", "private", "token"), "zero": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(allowed, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WSB_ONE", "one")
	t.Setenv("STT_TOKEN", "two")
	t.Setenv("ADMIN_TOKEN", "hush")
	t.Setenv("FLAG_TOKEN", "three")
	s := &Source{
		Variables: []string{"WSB_*", "STT_TOKEN"}, Directories: []string{filepath.Join(root, "none"), allowed},
		Given: []string{"env:FLAG_TOKEN", "file:" + filepath.Join(allowed, "escapes")},
	}
	for _, c := range []struct{ reference, want, err string }{
		{"env:WSB_ONE", "one", ""},
		{"env:STT_TOKEN", "two", ""},
		{"env:ADMIN_TOKEN", "", "the setting secret-env of the process does not name it"},
		{"env:STT_TOKEN2", "", "secret-env"},
		{"file:" + filepath.Join(allowed, "token"), "from a file+&", ""},
		{"file:" + filepath.Join(outside, "token"), "", "secret-directory"},
		{"file:" + allowed + "/../private/token", "", "secret-directory"},
		{"file:" + allowed, "", "secret-directory"},
		{"file:token", "", "secret-directory"},
		{"file:/dev/zero", "", "secret-directory"},
		{"env:FLAG_TOKEN", "three", ""},
		{"env:FLAG_TOKEN2", "", "secret-env"},
		{"file:" + filepath.Join(allowed, "escapes"), "hush", ""},
		{"file:" + filepath.Join(allowed, "zero"), "", "escapes"},
		{"file:" + filepath.Join(allowed, "..data"), "", "not a regular file"},
		{"file:" + filepath.Join(allowed, "large"), "", "more than 64 KiB"},
	} {
		got, err := s.Header("Bearer " + c.reference)
		if c.err == "" && got != "Bearer "+c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s is %q, %v; want %q, %q", c.reference, got, err, c.want, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%v shows a secret", err)
		}
	}
	got, err := s.Query("model=en&key=env:WSB_ONE&t=" + url.QueryEscape("file:"+filepath.Join(allowed, "token")) + "&x")
	if want := "model=en&key=one&t=from+a+file%2B%26&x"; err != nil || got != want {
		t.Errorf("the query is %s, %v; want %s", got, err, want)
	}
	if _, err := s.Query("key=env:ADMIN_TOKEN"); err == nil || !strings.Contains(err.Error(), "key: env:ADMIN_TOKEN: ") {
		t.Error(err)
	}
	if _, err := (*Source)(nil).readFile("/dev/zero"); runtime.GOOS == "linux" && err == nil {
		t.Error("read all of /dev/zero")
	}
}
