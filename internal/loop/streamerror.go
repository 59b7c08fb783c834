package loop

import (
	"errors"
	"fmt"
	"io"
)

// streamError makes an error of package tls tell what has happened.
func streamError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("stream cut off within a TLS record: %w", err)
	}
	return err
}
