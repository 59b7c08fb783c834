package loop

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// ioURing is how the loops of tests send (make test runs them in both ways).
var ioURing = flag.String("io-uring", string(IOURingAuto), "how loops send: auto, on or off")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
