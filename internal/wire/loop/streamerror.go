package loop

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// streamError makes clear what an error of package tls means, and returns the system's own error without the addresses: they are known, and
// reasons with them would not fit a close frame.
func streamError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("stream cut off within a TLS record: %w", err)
	}
	if number := syscall.Errno(0); errors.As(err, &number) {
		return number
	}
	return err
}
