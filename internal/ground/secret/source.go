package secret

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
)

// maxSecret is the size of the largest secret in bytes.
const maxSecret = 64 << 10

// Source reads the secrets that a configuration refers to. A user who may change the configuration need not be allowed to read all that the process
// can read: a source reads nothing but what it names. Its methods may be called from any goroutine. nil reads whatever the process can read: for
// references by who starts the process.
type Source struct {
	// Variables are the names of environment variables. A * at the end stands for anything.
	Variables []string
	// Directories are those whose files may be read, with those in folders below them.
	Directories []string
	// Given are references by who starts the process, which the source reads as nil does.
	Given []string
}

// gave reports whether a reference is by who starts the process.
func (s *Source) gave(reference string) bool { return s == nil || slices.Contains(s.Given, reference) }

// Check returns why the source does not read a reference; nil if it does, whether or not the secret exists.
func (s *Source) Check(reference string) error {
	if s.gave(reference) {
		return nil
	}
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		for _, pattern := range s.Variables {
			if beginning, open := strings.CutSuffix(pattern, "*"); name == pattern || open && strings.HasPrefix(name, beginning) {
				return nil
			}
		}
		return notAllowed("secret-env")
	}
	if _, _, ok := s.within(strings.TrimPrefix(reference, "file:")); !ok {
		return notAllowed("secret-directory")
	}
	return nil
}

func notAllowed(setting string) error {
	return fmt.Errorf("the configuration may not refer to it: the setting %s of the process does not name it", setting)
}

// within returns the directory that a file is in, and its name relative to that.
func (s *Source) within(path string) (directory, name string, ok bool) {
	for _, directory := range s.Directories {
		name, err := filepath.Rel(directory, path)
		if err == nil && filepath.IsAbs(path) && filepath.IsLocal(name) && name != "." {
			return directory, name, true
		}
	}
	return "", "", false
}

// Resolve is [Source.Header] for references by who starts the process.
func Resolve(value string) (string, error) { return (*Source)(nil).Header(value) }

// Header returns a header's value with its secret: the last word of the value may be env:NAME, for an environment variable of this
// process, or file:/path, for a file's content without the line's end. The error names the reference, not the secret.
func (s *Source) Header(value string) (string, error) {
	before, reference, ok := CutReference(value)
	if !ok {
		return value, nil
	}
	secret, err := s.read(reference)
	if err != nil {
		return "", fmt.Errorf("%s: %w", reference, err)
	}
	return before + secret, nil
}

// Query returns a URL's query with the secrets of its parameters, percent-encoded.
func (s *Source) Query(query string) (string, error) {
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		reference, err := url.QueryUnescape(value)
		if err != nil || !isReference(reference) {
			continue
		}
		secret, err := s.read(reference)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", name, reference, err)
		}
		parameters[i] = name + "=" + url.QueryEscape(secret)
	}
	return strings.Join(parameters, "&"), nil
}

// read returns the secret that a reference names. Its errors do not repeat the reference.
func (s *Source) read(reference string) (string, error) {
	if err := s.Check(reference); err != nil {
		return "", err
	}
	secret, isVariable := strings.CutPrefix(reference, "env:")
	if isVariable {
		value, ok := os.LookupEnv(secret)
		if !ok {
			return "", errors.New("the environment variable is not set")
		}
		secret = value
	} else {
		path := strings.TrimPrefix(reference, "file:")
		read := func() ([]byte, error) { return s.readFile(path) }
		var content []byte
		var err error
		if s.gave(reference) { // it may be a pipe, whose writer takes its time
			content, err = read()
		} else {
			content, err = timedread.Do(path, read)
		}
		if err != nil {
			return "", err
		}
		secret = strings.TrimRight(string(content), "\r\n")
	}
	switch {
	case secret == "":
		return "", errors.New("the value is empty")
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "", errors.New("the value has control characters, which a header cannot have")
	}
	return secret, nil
}

// readFile reads a file of at most maxSecret bytes. Of what a configuration names it must be a regular one, without waiting for anything, and
// symbolic links must not lead out of its directory.
func (s *Source) readFile(path string) ([]byte, error) {
	var file *os.File
	var err error
	gave := s.gave("file:" + path)
	if gave { // who starts the process may also name a pipe
		file, err = os.Open(path)
	} else {
		file, err = s.open(path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !gave {
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, errors.New("it is not a regular file")
		}
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err == nil && len(content) > maxSecret {
		err = fmt.Errorf("it has more than %d KiB", maxSecret>>10)
	}
	return content, err
}

func (s *Source) open(path string) (*os.File, error) {
	directory, name, _ := s.within(path)
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
