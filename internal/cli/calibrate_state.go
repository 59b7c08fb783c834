package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

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

// newCalibration returns the file of the calibration that these flags describe.
func newCalibration(c *calibrateFlags, url string) *calibration {
	key, _ := json.Marshal([]any{url, c.through, c.profile, c.model, c.audio, c.text, c.search}) // these never fail
	return &calibration{path: filepath.Join(state.Directory(), fmt.Sprintf("calibrate-%.6x.json", sha256.Sum256(key)))}
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

// appendable creates a file if there is none, so that a long run does not end in a file that cannot be written.
func appendable(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// look looks for other clients of the server, as far as the proxy knows that the command would change.
func (c *calibrateFlags) look(cmd *cobra.Command, server *calibrate.Server) error {
	sessions, at := -1, ""
	_ = c.from.use(cmd, false, func(t *target) error { // without a proxy, nothing was looked at
		now := t.running(cmd.Context(), io.Discard)
		if now == nil {
			return nil
		}
		sessions, at = 0, t.name
		for i := range now.Backends {
			if b := &now.Backends[i]; sameServer(b.URL, server.Streams.Targets[0].Server()) {
				sessions += b.Leased
			}
		}
		return nil
	})
	const unseen = "Clients that reach the server in another way do not show."
	switch {
	case sessions > 0 && !c.shared:
		return fmt.Errorf("the proxy at %s has %s on this server: drain the backend, or use --shared if they may be served badly", at, figures.Plural(sessions, "session"))
	case sessions >= 0:
		server.Log("The proxy at %s has %s on this server. %s", at, figures.Plural(sessions, "session"), unseen)
	default:
		server.Log("No proxy was asked for the server's sessions (--admin). %s", unseen)
	}
	return nil
}

// sameServer reports whether two URLs are of the same host and port.
func sameServer(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Host == y.Host
}
