//go:build unix

package postgres

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func BenchmarkLoad(b *testing.B) { configtest.Bench(b, open(b, migrated(b))) }
