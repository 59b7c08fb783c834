package backend

import (
	"testing"
	"unsafe"
)

// An idle connection is this, its stream and its place in the pool. More than 288 bytes would be rounded up to 320.
func TestSizeOfConnection(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Conn{}); size > 288 {
		t.Errorf("%d bytes; want at most 288", size)
	}
}
