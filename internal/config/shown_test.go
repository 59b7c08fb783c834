package config

import "testing"

func TestShown(t *testing.T) {
	content := NewContent()
	problems := content.Set(KindBackend, "gpu-1", Values{
		"url": "ws://10.0.0.5/?model=en&token=s3cret", "connections": "32", "labels": "zone=a",
		"headers": `{"Authorization":"Bearer env:TOKEN","X-Tenant":"s3cret"}`,
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := content.Shown(KindBackend, "gpu-1")
	for field, want := range map[string]string{
		"url": "ws://10.0.0.5/?model=en&token=(hidden)", "connections": "32", "labels": `{"zone":"a"}`,
		"headers": `{"Authorization":"Bearer env:TOKEN","X-Tenant":"(hidden)"}`,
	} {
		if got[field] != want {
			t.Errorf("%s: %s; want %s", field, got[field], want)
		}
	}
	if content.Backends["gpu-1"].Headers["X-Tenant"] != "s3cret" || len(got) != 4 {
		t.Errorf("the content was changed: %+v", content.Backends["gpu-1"])
	}
}
