//go:build unix

package postgres

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config/storetest"
)

func BenchmarkLoad(b *testing.B) { storetest.Bench(b, open(b, migrated(b))) }
