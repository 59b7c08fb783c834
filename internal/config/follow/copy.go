package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
)

// The copy is a YAML file as package file reads it, so that people can read it as well, and with it restore what a store has
// lost. Its first lines say where it comes from.
const (
	copyHead    = "# The last good configuration of a proxy, for a start without its store. Do not change it: it is written anew.\n"
	copySource  = "# source: "
	copyVersion = "# version: "
	copyTime    = "# written: "
)

func writeCopy(path, source string, snapshot *config.Snapshot) error {
	var b bytes.Buffer
	b.WriteString(copyHead)
	for _, line := range []string{
		copySource + source, copyVersion + snapshot.Version(), copyTime + time.Now().UTC().Format(time.RFC3339),
	} {
		b.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	}
	content := snapshot.Content()
	b.Write(file.Encode(&content))
	if b.Len() > file.MaxFile {
		return fmt.Errorf("as YAML, the configuration has %d bytes, and only %d can be read again", b.Len(), file.MaxFile)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return file.Replace(path, b.Bytes())
}

// IsCopy reports whether there is a copy of that source, by one of its names, at the path, with anything in it: the source was there before, and
// had something to lose.
func IsCopy(path string, names ...string) bool {
	data, err := os.ReadFile(path)
	if err != nil || !slices.Contains(names, field(data, copySource)) {
		return false
	}
	says := body(data)
	return len(says) > 0 && !bytes.Equal(says, body(file.Encode(&config.Content{})))
}

// body returns what a file says, without its comments before that and spaces around.
func body(data []byte) []byte {
	for bytes.HasPrefix(data, []byte("#")) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return bytes.TrimSpace(data)
}

// readCopy returns the snapshot of a copy, which must be of the source with one of these names: another one's servers may be the wrong ones.
func readCopy(path string, names ...string) (*config.Snapshot, error) {
	if path == "" {
		return nil, errors.New("no copy is kept")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", path)
	}
	if err != nil {
		return nil, err
	}
	switch from := field(data, copySource); {
	case from == "":
		return nil, fmt.Errorf("%s does not say which source it is a copy of", path)
	case !slices.Contains(names, from):
		return nil, fmt.Errorf("%s is a copy of %s", path, from)
	}
	content, err := file.DecodeEarlier(path, data, config.CheckProfiles)
	if err != nil {
		return nil, err
	}
	return config.NewSnapshot(field(data, copyVersion), &content, config.CheckProfiles)
}

// field returns what stands behind a name in the first lines.
func field(data []byte, name string) string {
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(text)
		}
		if !strings.HasPrefix(line, "#") {
			break
		}
	}
	return ""
}
