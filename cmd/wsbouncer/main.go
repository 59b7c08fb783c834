// Command wsbouncer is a pooling WebSocket proxy for streaming inference.
package main

import (
	"os"

	"github.com/wsbouncer/wsbouncer/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
