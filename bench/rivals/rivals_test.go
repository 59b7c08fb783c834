//go:build linux

package rivals

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestWorkers(t *testing.T) {
	got, err := Workers("nginx=7,envoy=2")
	if err != nil {
		t.Fatal(err)
	}
	if got["nginx"] != 7 || got["envoy"] != 2 || got["haproxy"] != workers["haproxy"] || workers["nginx"] == 7 {
		t.Errorf("%v, defaults %v", got, workers)
	}
	for _, wrong := range []string{"nginx", "nginx=0", "nginx=x", "c-relay=2"} {
		if _, err := Workers(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestParseVariant(t *testing.T) {
	for text, want := range map[string]Variant{
		"direct=--io-uring off": {Name: "direct", Flags: []string{"--io-uring", "off"}},
		"before=/x/wsbouncer":   {Name: "before", Binary: "/x/wsbouncer"},
	} {
		if got, err := ParseVariant(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "direct", "=x", "a=", "a,b=x", "a b=x"} {
		if v, err := ParseVariant(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, v)
		}
	}
}

func TestSelect(t *testing.T) {
	all := []Rival{{Name: "wsbouncer"}, {Name: "wsbouncer-one-shot"}, {Name: "nginx"}}
	for list, want := range map[string]string{
		"": "wsbouncer wsbouncer-one-shot nginx", "nginx,wsbouncer": "wsbouncer nginx", "nginx,nobody": "nginx",
	} {
		got, err := Select(all, list)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%q selects %v, want %s", list, names, want)
		}
	}
	if _, err := Select(all, "nobody"); err == nil {
		t.Error("a list that selects nothing is no error")
	}
}

func TestConfigurationsHaveEverything(t *testing.T) {
	task := Task{Listen: "127.0.0.1:81", Backends: []string{"127.0.0.1:82", "127.0.0.1:83"}, Sessions: 5}
	for _, config := range []string{"nginx.conf", "haproxy.cfg", "envoy.yaml", "Caddyfile"} {
		for _, ca := range []string{"", "/ca.pem"} {
			task.Dir, task.CA = t.TempDir(), ca
			file, err := configure(task, config, 3)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, port := range []string{"81", "82", "83"} {
				if !strings.Contains(string(text), port) {
					t.Errorf("%s has nothing of port %s:\n%s", config, port, text)
				}
			}
			if strings.Contains(string(text), "/ca.pem") != (ca != "") {
				t.Errorf("%s with the authority %q:\n%s", config, ca, text)
			}
		}
	}
}

func TestWhatCannotBeInstalledIsMissing(t *testing.T) {
	o := Options{Root: t.TempDir(), Cache: t.TempDir(), Dir: t.TempDir(), Offline: true}
	if _, err := o.debian(t.Context(), "no-such-program"); err == nil {
		t.Error("a program that is not there is found")
	}
	requirements := filepath.Join(o.Root, "requirements.txt")
	if err := os.WriteFile(requirements, []byte("x==1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := o.environment(t.Context(), "x", requirements); err == nil {
		t.Error("an environment that is not there is found")
	}
	r := Rival{Name: "x"}.found(t.Context(), nil, "false")
	if r.Missing == "" {
		t.Error("a program that does not tell its version is not missing")
	}
}

func TestAnonymous(t *testing.T) {
	got := WithoutPaths("no /home/me/cache/x from 'http://mirror.example/a' (ws://127.0.0.1:80)", "", "/", "/home/me/cache")
	if want := "no .../x from '...' (ws://127.0.0.1:80)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
