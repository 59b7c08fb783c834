// Package settings_test reads the sample settings, and the configuration that belongs to each, as the proxy does.
package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// TestSamples: the proxy accepts each sample without a warning, and docs/configure.md and README.md name it.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("*/wsbouncer.yaml")
	if err != nil || len(samples) < 3 {
		t.Fatalf("samples: %q (%v)", samples, err)
	}
	for _, name := range samples {
		folder := filepath.Dir(name)
		t.Run(folder, func(t *testing.T) {
			environment := []string{settings.FileVariable + "=" + name}
			for variable, token := range map[string]string{"WSBOUNCER_ADMIN_TOKEN": "a", "WSBOUNCER_ADMIN_READER_TOKEN": "b"} {
				token = strings.Repeat(token, 32) // instead of the file with the token, which is not here
				t.Setenv(variable, token)
				environment = append(environment, variable+"="+token)
			}
			loaded, err := settings.Sources{Environment: func() []string { return environment }}.Load()
			if err != nil {
				t.Fatal(err)
			}
			services := filepath.Join(folder, "services.yaml")
			content, err := file.Decode(services, []byte(read(t, services)), config.CheckProfiles)
			if err != nil {
				t.Fatal(err)
			}
			snapshot, err := config.NewSnapshot("1", &content, config.CheckProfiles)
			if err != nil {
				t.Fatal(err)
			}
			if warnings := slices.Concat(loaded.Warnings, snapshot.TenantWarnings(), content.OriginWarnings(false)); len(warnings) > 0 {
				t.Errorf("warnings: %q", warnings)
			}

			for page, link := range map[string]string{"README.md": "(" + folder + ")", "../../docs/configure.md": "(../examples/settings/" + folder + ")"} {
				if !strings.Contains(read(t, page), link) {
					t.Errorf("%s does not link to %s", page, folder)
				}
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
