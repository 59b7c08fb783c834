package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// WriteProfile writes a profile for simulated servers to a file in a folder, and returns its path: the built-in profile from, with further settings, each
// in YAML. The servers ask for no key, so that connections can be dialed ahead in any case.
func WriteProfile(folder, name, from string, settings ...string) (file string, err error) {
	p, err := profile.Named(from)
	if err != nil {
		return "", err
	}
	if p.Predial == profile.PredialWithKey {
		settings = append(settings, "predial: idle")
	}
	file = filepath.Join(folder, name+".yaml")
	text := fmt.Sprintf("profiles: {%s: {%s}}\n", name, strings.Join(append([]string{"from: " + from}, settings...), ", "))
	return file, os.WriteFile(file, []byte(text), 0o600)
}
