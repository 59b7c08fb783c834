package relay

import (
	"testing"
	"unsafe"
)

// Thousands of sessions last for hours. With the runtime's header of a word, more than 768 bytes would be rounded up to 896.
func TestSizeOfSession(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 760 {
		t.Errorf("%d bytes; want at most 760", size)
	}
}
