package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMutations(t *testing.T) {
	current := valid()
	change := Change{Who: "x", Mutations: []Mutation{
		{Verb: Set, Kind: KindBackend, Name: "gpu-3", Values: Values{"warm": "1"}},
		{Verb: Set, Kind: KindBackend, Name: "gpu-1", Values: Values{"conections": "1", "warm": "some", "labels.a b": "x", "state.x": "y"}},
		{Verb: "put", Kind: KindBackend, Name: "gpu-1"},
		{Verb: Add, Kind: "server", Name: "x"},
		{Verb: Remove, Kind: KindService, Name: "sst"},
	}}
	_, err := change.Result(&current)
	if err == nil {
		t.Fatal("they are accepted")
	}
	for _, says := range []string{
		`unknown backend "gpu-3": did you mean "gpu-1"? Use one of gpu-1, gpu-2`,
		`backend gpu-1: unknown field "conections": did you mean "connections"? Use one of service, url, connections`,
		`backend gpu-1: warm: invalid number "some"`,
		`backend gpu-1: labels.a b: invalid label name "a b"`,
		`backend gpu-1: unknown field "state.x"`,
		`backend gpu-1: unknown verb "put": use one of add, set, remove`,
		`unknown kind of entity "server": did you mean "service"? Use one of profile, service, backend`,
		`unknown service "sst": did you mean "stt"?`,
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error is\n%v\nand should say\n%s", err, says)
		}
	}
	before := valid()
	if edits := Diff(&before, &current); len(edits) > 0 {
		t.Errorf("the current content was changed: %v", edits)
	}
}

// What is shown instead of secrets cannot be stored in their place.
func TestPlaceholdersAreRefused(t *testing.T) {
	for field, c := range map[string]struct {
		kind         Kind
		name, values string
	}{
		"url: api_key":          {KindBackend, "gpu-1", `{"url":"ws://10.0.0.9?api_key=(hidden)"}`},
		"url: key":              {KindBackend, "gpu-1", `{"url":"ws://10.0.0.9?a=b&key=%28hidden%29"}`},
		"headers.X-Tenant":      {KindBackend, "gpu-1", `{"headers.X-Tenant":"(hidden)"}`},
		"Authorization":         {KindBackend, "gpu-1", `{"headers.Authorization":"(hidden)"}`},
		"headers.Authorization": {KindBackend, "gpu-1", `{"headers.Authorization":"(hidden) env:TOKEN"}`},
		"labels.api-token":      {KindBackend, "gpu-1", `{"labels.api-token":"(hidden)"}`},
		"set-query.token":       {KindService, "stt", `{"set-query.token":"(hidden)"}`},
		"X-Api-Key":             {KindService, "stt", `{"set-header.X-Api-Key":"(hidden)"}`},
		"probe: token":          {KindService, "stt", `{"probe":"/health?token=(hidden)"}`},
		"hash":                  {KindKey, "phone", `{"hash":"(hidden)"}`},
	} {
		current := valid()
		current.Keys["phone"] = NewKey()
		var values Values
		if err := json.Unmarshal([]byte(c.values), &values); err != nil {
			t.Fatal(err)
		}
		change := Change{Who: "x", Mutations: []Mutation{{Verb: Set, Kind: c.kind, Name: c.name, Values: values}}}
		_, err := change.Result(&current)
		if err == nil || !strings.Contains(err.Error(), field+": (hidden) stands for a secret") || strings.Contains(err.Error(), "looks like") {
			t.Errorf("%s: %v", c.values, err)
		}
	}
	current := valid()
	b := current.Backends["gpu-1"]
	b.Headers = map[string]string{"X-Tenant": "(hidden)"}
	current.Backends["gpu-1"] = b
	change := Change{Who: "x", Mutations: []Mutation{{Verb: Set, Kind: KindBackend, Name: "gpu-1", Values: Values{"warm": "1"}}}}
	if _, err := change.Result(&current); err != nil {
		t.Errorf("what was stored before is in the way: %v", err)
	}
}

func TestChangeIsJSON(t *testing.T) {
	text := `{"expect":"7","who":"alice","why":"more","mutations":[{"verb":"set","kind":"backend","name":"gpu-1","values":{"warm":"8"}}]}`
	var c Change
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	current := valid()
	to, err := c.Result(&current)
	if err != nil || to.Backends["gpu-1"].Warm != 8 {
		t.Errorf("%+v, %v", to.Backends["gpu-1"], err)
	}
	if back, err := json.Marshal(c); err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
}

// TestSetText covers the forms in which people give lists and maps.
func TestSetText(t *testing.T) {
	for _, c := range []struct {
		kind               Kind
		field, text, value string
	}{
		{KindService, "allow-origin", "https://a,https://b", `["https://a","https://b"]`},
		{KindService, "allow-origin", `["https://a"]`, `["https://a"]`},
		{KindBackend, "labels", "zone=a,rack=3", `{"rack":"3","zone":"a"}`},
		{KindBackend, "labels", `{ "zone": "<a>" }`, `{"zone":"<a>"}`},
		{KindBackend, "labels.zone", "a=b", `{"zone":"a=b"}`},
		{KindBackend, "warm", "cap", "cap"},
		{KindService, "max-message", "1024KiB", "1MiB"},
		{KindService, "queue-timeout", "60s", "1m"},
	} {
		content := valid()
		name := map[Kind]string{KindService: "stt", KindBackend: "gpu-1"}[c.kind]
		problems := content.Set(c.kind, name, Values{c.field: c.text})
		field, _, _ := strings.Cut(c.field, ".")
		if got := content.Value(c.kind, name, field); len(problems) > 0 || got != c.value {
			t.Errorf("%s %s is %q, %v; it should be %q", c.field, c.text, got, problems, c.value)
		}
	}
	content := valid()
	for field, text := range map[string]string{
		"labels": "zone", "headers": "a=b,a=c", "tls-insecure-skip-verify": "yes", "weight": "1e9", "connections": "1.5",
	} {
		if problems := content.Set(KindBackend, "gpu-1", Values{field: text}); len(problems) != 1 {
			t.Errorf("%s %s: %v", field, text, problems)
		}
	}
}

// A change adds no secret to a URL, nor to what services add to it. What was stored before stays, and may be changed otherwise.
func TestSecretsAreRefused(t *testing.T) {
	before := NewContent()
	before.Services["stt"] = DefaultService()
	stored := DefaultBackend()
	stored.Service, stored.URL = "stt", "ws://h/?key=stored"
	before.Backends["gpu-1"] = stored
	for want, m := range map[string]Mutation{
		"": {Set, KindBackend, "gpu-1", Values{"weight": "2"}},
		"backend gpu-1: url: the parameter key looks like a secret, which is not stored here: use key=env:NAME or key=file:/path, or a header": {
			Set, KindBackend, "gpu-1", Values{"url": "ws://h/?key=hush"},
		},
		"service stt: set-query: token looks like a secret, which is not stored here: use token=env:NAME or token=file:/path in the URL of the backends": {
			Set, KindService, "stt", Values{"set-query.token": "hush"},
		},
	} {
		_, err := (&Change{Mutations: []Mutation{m}}).Result(&before)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%+v: %v; want %s", m, err, want)
		}
	}
	to := before.Clone()
	if _, err := (&Change{Content: &to}).Result(&before); err != nil {
		t.Error(err)
	}
	empty := NewContent()
	if _, err := (&Change{Content: &to}).Result(&empty); err == nil {
		t.Error("an import adds a secret")
	}
}
