package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/lab/calibrate"
)

// calibration is the file from which an interrupted calibration continues: its steps.
type calibration struct {
	path  string
	saved bool // the last steps are in it
}

// continueWithin is for how long a calibration continues: servers change.
const continueWithin = 24 * time.Hour

// newCalibration returns the file of the calibration of a server that these flags describe. Its name depends on all that a result depends on.
func newCalibration(c *calibrateFlags, url string, server *calibrate.Server) *calibration {
	key, o := sha256.New(), &server.Streams
	_ = json.NewEncoder(key).Encode([]any{url, c.through, o.Profile.YAML(), o.Targets[0].Protocol, c.model, c.search}) // these never fail
	for _, field := range c.server.header.fields {
		fmt.Fprintf(key, "%q: %q\n", field.name, field.given) // not its value: a token that expires is renewed
	}
	for _, r := range slices.Concat(server.Short, o.Recordings) {
		for i := range r.Chunks() {
			key.Write(r.Chunk(i, 0).Payload)
		}
	}
	return &calibration{path: filepath.Join(state.Directory(), fmt.Sprintf("calibrate-%.6x.json", key.Sum(nil)))}
}

// load returns the steps of an interrupted calibration; nil for none.
func (c *calibration) load(messages io.Writer) (steps []calibrate.Step) {
	info, err := os.Stat(c.path)
	if err != nil || time.Since(info.ModTime()) > continueWithin {
		return nil
	}
	data, err := os.ReadFile(c.path)
	if err == nil {
		err = json.Unmarshal(data, &steps)
	}
	if err != nil {
		fmt.Fprintf(messages, "The interrupted calibration cannot be read, so this begins anew: %v\n", err)
		return nil
	}
	fmt.Fprintf(messages, "Continues after %s of an interrupted calibration (delete %s to begin anew)\n", figures.Plural(len(steps), "step"), c.path)
	c.saved = true
	return steps
}

// keep writes the steps. What cannot be written costs no calibration, only its continuation.
func (c *calibration) keep(messages io.Writer, steps []calibrate.Step) {
	data, err := json.Marshal(steps)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(c.path+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(c.path+".new", c.path)
	}
	if err != nil {
		_ = os.Remove(c.path + ".new")
		if c.saved || len(steps) == 1 {
			fmt.Fprintf(messages, "Warning: this calibration cannot continue after an interruption: %v\n", err)
		}
	}
	c.saved = err == nil
}

func (c *calibration) remove() { _ = os.Remove(c.path) }

// interrupted returns the error of a calibration that was.
func (c *calibration) interrupted(ctx context.Context, steps int, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted in step %d", steps+1)
	}
	if c.saved && steps > 0 {
		return fmt.Errorf("%w: the same command continues after step %d", err, steps)
	}
	return err
}
