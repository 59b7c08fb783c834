package config

import (
	"encoding/json"
	"testing"
)

func TestJSON(t *testing.T) {
	values := Values{
		"service": "7", "connections": "32", "warm": "8", "weight": "0.5", "labels": `{"zone":"a"}`, "tls-insecure-skip-verify": "true",
	}
	const want = `{"service":"7","connections":32,"warm":8,"weight":0.5,"labels":{"zone":"a"},"tls-insecure-skip-verify":true}`
	if got := JSON(KindBackend, values, false); string(got) != want {
		t.Errorf("%s; want %s", got, want)
	}
	for _, kind := range Kinds() {
		all := JSON(kind, nil, true)
		var back Values
		if err := json.Unmarshal(all, &back); err != nil || len(back) != len(Fields(kind)) {
			t.Fatalf("%s: %v", all, err)
		}
		content := NewContent()
		if problems := content.Set(kind, "x", back); len(problems) > 0 {
			t.Errorf("the defaults of a %s cannot be read again: %v\n%s", kind, problems, all)
		}
		if changed := content.Values(kind, "x"); len(changed) > 0 {
			t.Errorf("the defaults of a %s come back as %v", kind, changed)
		}
	}
}

func TestValuesUnmarshal(t *testing.T) {
	var values Values
	err := json.Unmarshal([]byte(`{"connections":32,"warm":"cap","labels": {"zone": "a"},"tls-insecure-skip-verify":false,"weight":null,"url":"ü\u2028"}`), &values)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"connections": "32", "warm": "cap", "labels": `{"zone":"a"}`, "tls-insecure-skip-verify": "false", "weight": "", "url": "ü\u2028",
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
	if err := json.Unmarshal([]byte(`["connections"]`), &values); err == nil {
		t.Error("a list was taken for fields")
	}
}
