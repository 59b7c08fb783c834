package file

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestDecode(t *testing.T) {
	content, err := Decode("c.yaml", []byte(`# what people write
services:
  stt: {path: /v1/stt, queue-timeout: 1m, allow-origin: https://a.example}
  mt:   # nothing but defaults, and a path
    path: "/v1/mt"
    allow-origin: [https://a.example, https://b.example]
  idle:
backends:
  gpu-1:
    service: stt
    url: ws://10.0.0.1:2700/
    connections: 32
    weight: 1.50
    warm: ~
    labels: {rack: 03, on: yes, none: "null"}
profiles:
  own: # kept
    # the reason
    from: echo
    text: |
      a
        b

    # its end
  # the next one
  flow: {from: echo,
    summary: x}
  text: |
    from: one-shot
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind              config.Kind
		name, field, want string
	}{
		{config.KindService, "stt", "queue-timeout", "1m"},
		{config.KindService, "stt", "allow-origin", `["https://a.example"]`},
		{config.KindService, "mt", "path", "/v1/mt"},
		{config.KindService, "mt", "allow-origin", `["https://a.example","https://b.example"]`},
		{config.KindService, "idle", "queue", "1000"},
		{config.KindBackend, "gpu-1", "connections", "32"},
		{config.KindBackend, "gpu-1", "weight", "1.5"},
		{config.KindBackend, "gpu-1", "warm", "cap"},
		{config.KindBackend, "gpu-1", "labels", `{"none":"null","on":"yes","rack":"03"}`},
		{config.KindProfile, "own", "yaml", "# the reason\nfrom: echo\ntext: |\n  a\n    b\n\n# its end\n"},
		{config.KindProfile, "flow", "yaml", "{from: echo,\n    summary: x}\n"},
		{config.KindProfile, "text", "yaml", "from: one-shot\n"},
	} {
		if got := content.Value(c.kind, c.name, c.field); !content.Has(c.kind, c.name) || got != c.want {
			t.Errorf("%s %s: %s is %q; it should be %q", c.kind, c.name, c.field, got, c.want)
		}
	}
	again, err := Decode("again", Encode(&content), nil)
	if err != nil {
		t.Fatal(err)
	}
	if edits := config.Diff(&content, &again); len(edits) > 0 {
		t.Errorf("written and read again it differs: %v\n%s", edits, Encode(&content))
	}
}

func TestDecodeNothing(t *testing.T) {
	for _, text := range []string{"", "\n# nothing\n", "---\n", "services:\n", "services: {}\nbackends: ~\n"} {
		if content, err := Decode("c.yaml", []byte(text), nil); err != nil || len(content.Services) != 0 {
			t.Errorf("%q: %v, %v", text, content, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const start = "services:\n  stt:\n    path: /v1\nbackends:\n  gpu-1:\n    service: stt\n    url: ws://a/\n"
	for _, c := range []struct {
		text string
		says []string
	}{
		{"service:\n  stt: {}\n", []string{`c.yaml:1:1: unknown key "service": did you mean "services"? Use one of services, backends, profiles`}},
		{start + "    conections: 5\n    labels:\n      zone: [a]\n    wram: 3\n", []string{
			`c.yaml:8:5: backend gpu-1: unknown key "conections": did you mean "connections"? Use one of service, url`,
			`c.yaml:10:13: backend gpu-1: labels.zone: found a list; expected text or a number`,
			`c.yaml:11:5: backend gpu-1: unknown key "wram": did you mean "warm"?`,
		}},
		{"services:\n  stt:\n    balance: hash\n    hash-by: header:X-User\ntenants: {acme: {message-rate: 1/s}}\n", []string{
			`c.yaml:4:5: service stt: the field hash-by no longer exists: use balance, such as balance: hash:header:NAME`,
			`c.yaml:5:18: tenant acme: the field message-rate no longer exists: use byte-rate, or message-rate of keys`,
		}},
		{start + "    connections: lots\n    warm: 5000\n  gpu-2: {service: sst, url: ws://a/}\n", []string{
			`c.yaml:8:18: backend gpu-1: connections: invalid number "lots"`,
			`c.yaml:9:11: backend gpu-1: warm: invalid number "5000": use a whole number from 0 to the cap`,
			`c.yaml:10:20: backend gpu-2: service: unknown service "sst": did you mean "stt"?`,
			`c.yaml:10:30: backend gpu-2: url: the backend gpu-1 has the same server "ws://a/"`,
		}},
		{start + "    url: ws://b/\n  gpu-1: {}\n", []string{`c.yaml:8:5: backend gpu-1: "url" is defined twice`, `c.yaml:9:3: "gpu-1" is defined twice`}},
		{start + "  gpu-2: {url: ws://b/}\n", []string{`c.yaml:8:3: backend gpu-2: service: the value is missing: use stt`}},
		{start + "    headers:\n      X-Key: s3cret\n", []string{`c.yaml:9:7: backend gpu-1: headers: X-Key looks like a secret`}},
		{start + "    state: &a enabled\n    warm: !!int 3\n    labels: {zone: *a}\n", []string{
			`c.yaml:8:12: backend gpu-1: state: anchors, aliases and tags are not supported`, `c.yaml:9:11: backend gpu-1: warm: `,
			`c.yaml:10:20: backend gpu-1: labels.zone: `,
		}},
		{"services: &a\n  stt: {path: /x}\nbackends: *a\n", []string{`c.yaml:1:11: anchors`, `c.yaml:3:11: anchors`}},
		{"services:\n  stt:\n    allow-origin: &a [https://a.example]\n", []string{`c.yaml:3:19: service stt: allow-origin: anchors`}},
		{"services: [a]\nbackends: text\n", []string{`c.yaml:1:11: found a list; expected a mapping from names`, `c.yaml:2:11: found text; expected a mapping`}},
		{"- a\n", []string{`c.yaml:1:1: found a list; expected a mapping with the keys services, backends, profiles, tenants and keys`}},
		{"services: {}\n---\nbackends: {}\n", []string{`c.yaml:2: a second YAML document begins here: use only one`}},
		{"services:\n\tstt: {}\n", []string{`c.yaml:2: a tab: indent YAML with spaces`}},
		{"services:\n  stt: \"open\n", []string{`invalid YAML: found unexpected end of stream`}},
		{"services:\n  \xff: {}\n", []string{`c.yaml:2: invalid UTF-8`}},
		{strings.Repeat("[", 100_000), []string{`c.yaml: invalid YAML: exceeded max depth`}},
		{strings.Repeat("- ", 100_000), []string{`invalid YAML: exceeded max depth`}},
		{strings.Repeat(" ", MaxFile+1), []string{`use at most 4194304`}},
	} {
		_, err := Decode("c.yaml", []byte(c.text), nil)
		var problems config.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%.60q: the error is %v", c.text, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%.200q: the error is\n%v\nand should say\n%s", c.text, err, says)
			}
		}
		if len(problems) != len(c.says) {
			t.Errorf("%.200q: there are %d problems; there should be %d:\n%v", c.text, len(problems), len(c.says), err)
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// What an earlier version has written, such as the copy of the last good configuration, is read as it was meant.
func TestDecodeEarlier(t *testing.T) {
	content, err := DecodeEarlier("c.yaml", []byte("services:\n  stt:\n    balance: hash\n    hash-by: header:X-User\n    tcp-user-timeout: 1m\n"), nil)
	if err != nil || content.Services["stt"].Balance != "hash:header:X-User" {
		t.Errorf("%+v, %v", content.Services["stt"], err)
	}
	if _, err := DecodeEarlier("c.yaml", []byte("services: {stt: {hash-bye: client}}\n"), nil); err == nil || !strings.Contains(err.Error(), `unknown key "hash-bye"`) {
		t.Errorf("a field that no version had: %v", err)
	}
}

// TestBombs are small files that cost other readers of YAML much.
func TestBombs(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'z'; c++ {
		aliases.WriteString(string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ",") + "]\n")
	}
	for name, text := range map[string]string{
		"aliases": aliases.String(), "nulls": "services:\n" + strings.Repeat("  a:\n", 100_000), "flow": strings.Repeat("{", 1<<20),
		"indented": strings.Repeat("a:\n ", 3000), "complex keys": strings.Repeat("? ", 1<<20), "tags": strings.Repeat("!a ", 1<<20),
		"brackets in pairs": "services: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	} {
		if _, err := Decode(name, []byte(text), nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestTextsSurvive writes and reads texts that YAML has ideas about.
func TestTextsSurvive(t *testing.T) {
	texts := rapid.OneOf(
		rapid.SampledFrom([]string{
			"null", "~", "true", "no", "0x10", "1e3", "-", "- a", "a: b", "a:", ":a", "#a", "a #b", "'a'", "\"", "{a}", "[a", "&a", "*a", "!a", "|", ">", "%a", "@a",
			"`a", " a", "a ", "\\", "2026-01-01", "=", "<<", "?", "? a", ".inf", "...", "---", "é", "a\u2028b", "\ufeffa", "日本", "a,b", "+1", "0o7", "1_000", "a:b:c", "/:", "x:y ",
		}),
		rapid.StringOfN(rapid.Rune(), 1, 40, 200),
	)
	rapid.Check(t, func(t *rapid.T) {
		content := configtest.Sized(1)
		b := content.Backends["gpu-1"]
		b.Labels, b.TLSCA = map[string]string{"x": texts.Draw(t, "label"), "on": "y"}, ""
		b.URL, b.TLSKey = "wss://a/", ""
		b.TLSServerName = ""
		content.Backends["gpu-1"] = b
		if content.Validate(nil) != nil {
			t.Skip("the text is not allowed")
		}
		read, err := Decode("c.yaml", Encode(&content), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, Encode(&content))
		}
		if edits := config.Diff(&content, &read); len(edits) > 0 {
			t.Fatalf("%v\n%s", edits, Encode(&content))
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("services:\n  stt: {path: /v1}\nbackends:\n  a: {service: stt, url: ws://a, labels: {x: y}}\nprofiles:\n  p:\n    from: echo\n"))
	f.Add([]byte("profiles:\n  p: {a: [\n b]}\n  q: |\n   x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := Decode("f", data, nil)
		if err != nil {
			return
		}
		again, err := Decode("f", Encode(&content), nil)
		if err != nil {
			if len(content.Profiles) > 0 {
				return // what is no YAML in a profile is for the check of profiles
			}
			t.Fatalf("%v\n%s", err, Encode(&content))
		}
		if edits := config.Diff(&content, &again); len(edits) > 0 {
			t.Fatalf("%v\n%s", edits, Encode(&content))
		}
	})
}

// A part of a configuration may refer to what is elsewhere, but must be understood.
func TestDecodePart(t *testing.T) {
	content, err := DecodePart("part.yaml", []byte("backends:\n  gpu-1: {service: stt, url: ws://10.0.0.5:2700}\n"))
	if err != nil || content.Backends["gpu-1"].Service != "stt" {
		t.Errorf("%+v, %v", content, err)
	}
	_, err = DecodePart("part.yaml", []byte("backends:\n  gpu-1: {service: stt, warm: -1}\n"))
	if err == nil || !strings.Contains(err.Error(), "part.yaml:2:31: backend gpu-1: warm:") {
		t.Errorf("%v", err)
	}
}

// A profile on one line with what it stands in is cut out of it.
func TestProfileInFlow(t *testing.T) {
	content, err := Decode("p.yaml", []byte(`profiles: {a: {from: echo, summary: "a } b"}, b: {from: vosk, limits: {sessions: 5}}}`), config.CheckProfiles)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := content.Profiles["a"].YAML, content.Profiles["b"].YAML; a != `{from: echo, summary: "a } b"}`+"\n" || b != "{from: vosk, limits: {sessions: 5}}\n" {
		t.Errorf("%q and %q", a, b)
	}
}

// Lines end as the library counts them: also at a lone carriage return, and at what only Unicode takes for a line's end.
func TestProfileBehindOddBreaks(t *testing.T) {
	for text, want := range map[string]string{
		"profiles:\r  own: {from: vosk}\r":                                                                                                         "{from: vosk}\n",
		"profiles:\r\n  own:\r\n    from: vosk\r\n    limits: {sessions: 100}\r\n":                                                                 "from: vosk\nlimits: {sessions: 100}\n",
		"backends:\n  a: {service: stt, url: ws://a, labels: {x: \"a\u2028b\"}}\nprofiles:\n  own: {from: vosk}":                                   "{from: vosk}\n",
		"backends:\n  a: {service: stt, url: ws://a, labels: {x: \"a\u0085b\"}}\nprofiles:\n  own:\n    from: vosk\n    limits: {sessions: 100}\n": "from: vosk\nlimits: {sessions: 100}\n",
	} {
		content, err := DecodePart("c.yaml", []byte(text))
		if err != nil || content.Profiles["own"].YAML != want {
			t.Errorf("%q: %q, %v", text, content.Profiles["own"].YAML, err)
		}
	}
	own := config.NewContent()
	own.Profiles["own"] = config.Profile{YAML: "from: vosk\nsummary: \"a\u2028b\"\nlimits: {sessions: 100}\n"}
	own.Profiles["next"] = config.Profile{YAML: "from: echo\n"}
	read, err := Decode("c.yaml", Encode(&own), nil)
	if err != nil || !strings.Contains(read.Profiles["own"].YAML, "limits: {sessions: 100}") || read.Profiles["next"].YAML != "from: echo\n" {
		t.Errorf("%+v, %v", read.Profiles, err)
	}
}
