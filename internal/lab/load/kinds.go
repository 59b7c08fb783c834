package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// kind returns a short name for the kind of an error, so that errors can be counted by kind.
func kind(err error) string {
	var status *handshake.StatusError
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("HTTP %d", status.Status)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no local port left"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "no descriptor left"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return innermost(err).Error()
}

// innermost returns the innermost error. Outer errors name addresses, which differ from one connection to the next.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
