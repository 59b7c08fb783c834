package profile

import (
	"testing"
	"unsafe"
)

// Each session has this besides package session's. More than 192 bytes would be rounded up to 208.
func TestSizeOfSession(t *testing.T) {
	if size := unsafe.Sizeof(session{}); size > 192 {
		t.Errorf("%d bytes; want at most 192", size)
	}
}
