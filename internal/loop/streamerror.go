package loop

import (
	"errors"
	"fmt"
	"io"
)

// streamError makes clear what an error of package tls means.
func streamError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("stream cut off within a TLS record: %w", err)
	}
	return err
}
