// Package realservers tries the built-in profiles on the servers that people run: their own programs, with a small model, or with what replaces the
// model below the engine's API.
//
// Each folder of conformance/servers describes one server ([Server]). [Run] installs it into an environment of its own, starts it, and tries
// its own client with and without the proxy, the claims of the profile, reuse, failover, and what it does when it is full. The results make the matrix
// in docs/reference/tested-servers.md. The target test-servers of the Makefile runs it (cmd).
package realservers

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/lab/verify"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Server describes a server: what its folder's server.yaml says.
type Server struct {
	// Title is what it is called in the matrix, Homepage where it comes from, Version the versions of what is run, and Note what its operator must know.
	Title    string `yaml:"server"`
	Homepage string `yaml:"homepage"`
	Version  string `yaml:"version"`
	Note     string `yaml:"note"`
	// Profile is the name of the built-in profile that is tried, Unsafe the dangers that it accepts so that reuse is tried, and Settings what an
	// operator of this server sets in a profile that inherits from it.
	Profile  string         `yaml:"profile"`
	Unsafe   []string       `yaml:"unsafe"`
	Settings map[string]any `yaml:"settings"`
	// Python is the version of Python that it needs, such as 3.12. Default: that of python3.
	Python string `yaml:"python"`
	// Source is where its program is if it is in no registry of packages.
	Source Source `yaml:"source"`
	// Start are the arguments of the environment's Python, and Path the path and query of a session.
	Start []string `yaml:"start"`
	Path  string   `yaml:"path"`
	// Client are the arguments of the environment's Python for the server's own client; empty for none.
	Client []string `yaml:"client"`
	// Model is the model that a client asks for, where it names one.
	Model string `yaml:"model"`
	// Pace is how many times faster than real time audio is sent. Default 2.
	Pace float64 `yaml:"pace"`
	// Watch is for how long a connection is watched that waits for its session. Default 1 min.
	Watch time.Duration `yaml:"watch"`
	// Silence is how much silence ends a recording, for a server that leaves the last of its audio alone.
	Silence time.Duration `yaml:"silence"`
	// Full is how to start it so that it is full after some sessions; nothing if it has no limit.
	Full Full `yaml:"full"`
	// Expect are the verdicts of claims that do not hold, each with the word "fails".
	Expect map[string]string `yaml:"expect"`

	name, folder string
	command      func(arguments []string) []string // instead of the environment's Python, for tests
}

// Source is a commit of a repository.
type Source struct {
	Repository string `yaml:"repository"`
	Commit     string `yaml:"commit"`
}

// Full is a server that is full after some sessions.
type Full struct {
	Start    []string `yaml:"start"`
	Sessions int      `yaml:"sessions"`
}

// Load reads the descriptions in the folders of a directory, ordered by name.
func Load(directory string) (all []*Server, err error) {
	files, err := filepath.Glob(filepath.Join(directory, "*", "server.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no folder has a server.yaml", directory)
	}
	return all, nil
}

func read(file string) (*Server, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &Server{Path: "/", Pace: 2, Watch: time.Minute}
	if s.folder, err = filepath.Abs(filepath.Dir(file)); err != nil {
		return nil, err
	}
	s.name = filepath.Base(s.folder)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); err != nil {
		return nil, err
	}
	return s, s.validate()
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// validate returns an error that names the wrong fields, their values and what is allowed.
func (s *Server) validate() error {
	var wrong []error
	for _, c := range []struct {
		bad  bool
		text string
	}{
		{s.Title == "", "server: the value is missing: use what the server is called"},
		{s.Version == "", "version: the value is missing: use the versions of what is run"},
		{len(s.Start) == 0, "start: the value is missing: use the arguments of Python"},
		{!strings.HasPrefix(s.Path, "/"), fmt.Sprintf("path: %q: use a path that begins with /", s.Path)},
		{s.Source.Repository != "" && !commit.MatchString(s.Source.Commit), fmt.Sprintf("source.commit: %q: use 40 hexadecimal digits", s.Source.Commit)},
		{!(s.Pace >= 0.5 && s.Pace <= 100), fmt.Sprintf("pace: %g is out of range: use 0.5 to 100", s.Pace)},
		{!(s.Watch >= time.Second && s.Watch <= time.Hour), fmt.Sprintf("watch: %v is out of range: use 1s to 1h", s.Watch)},
		{len(s.Full.Start) > 0 && (s.Full.Sessions < 1 || s.Full.Sessions > 8), fmt.Sprintf("full.sessions: %d is out of range: use 1 to 8", s.Full.Sessions)},
	} {
		if c.bad {
			wrong = append(wrong, errors.New(c.text))
		}
	}
	if _, err := profile.Named(s.Profile); err != nil {
		wrong = append(wrong, fmt.Errorf("profile: %w", err))
	} else if _, err := profile.Parse("settings", s.profiles()); err != nil {
		wrong = append(wrong, err)
	}
	for claim, verdict := range s.Expect {
		if verdict != expectedFailure {
			wrong = append(wrong, fmt.Errorf("expect.%s: %q: use %q, and leave out what holds", claim, verdict, expectedFailure))
		}
	}
	return errors.Join(wrong...)
}

// profiles returns the profile that is tried, as YAML.
func (s *Server) profiles() []byte {
	tried := map[string]any{"from": s.Profile}
	maps.Copy(tried, s.Settings)
	if len(s.Unsafe) > 0 {
		tried["unsafe"] = s.Unsafe
	}
	text, _ := yaml.Marshal(map[string]any{"profiles": map[string]any{"tried": tried}}) // never fails: it was YAML
	return text
}

const expectedFailure = "fails"

// unexpected says which verdict is not the expected one; empty for none.
func (s *Server) unexpected(r *verify.Report) string {
	for _, c := range r.Claims {
		switch fails := s.Expect[c.Name] == expectedFailure; {
		case c.Verdict == verify.Fails && !fails:
			return fmt.Sprintf("the claim %s does not hold: %s\n  %s", c.Name, c.Why, strings.Join(c.Evidence, "\n  "))
		case c.Verdict == verify.Holds && fails:
			return fmt.Sprintf("the claim %s holds, which was not expected: take it out of expect", c.Name)
		}
	}
	return ""
}
