package backend

import (
	"testing"
	"unsafe"
)

// An idle connection is this, its stream and its place in the pool. More than 256 bytes would be rounded up to 288.
func TestSizeOfConnection(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Conn{}); size > 256 {
		t.Errorf("%d bytes; want at most 256", size)
	}
}
