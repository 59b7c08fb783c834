package tracing

import (
	"os"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestMain(m *testing.M) { os.Exit(wstest.RunAndFindLeaks(m)) }
