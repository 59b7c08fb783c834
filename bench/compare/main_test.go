//go:build linux

package main

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // progress
	goleak.VerifyTestMain(m)
}
