package session

import (
	"testing"
	"unsafe"
)

// Thousands of sessions last for hours. More than 768 bytes would be rounded up to 896.
func TestSizeOfSession(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 768 {
		t.Errorf("%d bytes; want at most 768", size)
	}
}
