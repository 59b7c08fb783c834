//go:build !linux || portableloop

package loop

import (
	"errors"
	"testing"
)

const maxOwed = 0

var errUpdates = errors.New("only with epoll")

func shrinkSendBuffer(*testing.T, *Conn) {}
