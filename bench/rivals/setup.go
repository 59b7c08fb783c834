//go:build linux

package rivals

import (
	"context"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// Options say how to set the rivals up.
type Options struct {
	Root      string    // of the repository
	Cache     string    // for what is installed, from run to run
	Dir       string    // for what is built; temporary
	WSBouncer string    // the binary that is compared
	Variants  []Variant // of the binary, to compare as well
	Workers   map[string]int
	Offline   bool                   // install nothing
	Wanted    func(name string) bool // whether to set a rival up; nil: all
}

// setUpTimeout is how long setting one rival up may take.
const setUpTimeout = 5 * time.Minute

// SetUp finds, builds or installs all rivals, wsbouncer first. If that fails for a rival, its field Missing says why.
func SetUp(ctx context.Context, o Options) []Rival {
	type step struct {
		names []string
		setUp func(context.Context, Options) []Rival
	}
	steps := []step{
		{[]string{"wsbouncer", "wsbouncer-one-shot", "wsbouncer-no-uring"}, wsbouncers},
		{[]string{"c-relay"}, relay},
		{[]string{"nginx"}, nginx},
		{[]string{"haproxy"}, haproxy},
		{[]string{"envoy"}, envoy},
		{[]string{"caddy"}, caddy},
		{[]string{"gorilla"}, gorilla},
	}
	var all []Rival
	for _, s := range steps {
		if o.Wanted != nil && !slices.ContainsFunc(s.names, o.Wanted) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, setUpTimeout)
		all = append(all, s.setUp(within, o)...)
		cancel()
	}
	for i, r := range all {
		all[i].Missing = o.withoutPaths(r.Missing)
		if r.Missing != "" {
			log.Printf("%s is skipped: %s", r.Name, all[i].Missing)
		}
	}
	return all
}

// Find returns the path of the first installed program of those named, or an empty string.
func Find(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// withoutPaths removes this machine's folders from a message.
func (o Options) withoutPaths(text string) string {
	home, _ := os.UserHomeDir()
	return WithoutPaths(text, o.Dir, o.Cache, o.Root, home)
}

// webAddress matches the addresses of mirrors, which differ from machine to machine.
var webAddress = regexp.MustCompile(`https?://[^\s'")]+`)

// WithoutPaths removes folders and web addresses from a message for a published report.
func WithoutPaths(text string, folders ...string) string {
	text = webAddress.ReplaceAllString(text, "...")
	for _, folder := range folders {
		if len(folder) > 1 {
			text = strings.ReplaceAll(text, folder, "...")
		}
	}
	return text
}

// version returns the first line that a program prints for some arguments.
func version(ctx context.Context, name string, args ...string) (string, error) {
	text, err := child.Output(ctx, "", name, args...)
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line), err
}
