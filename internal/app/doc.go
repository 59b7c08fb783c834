// Package app is the storey that connects the parts to a running proxy, applies its configuration and shuts it down; the commands (cli), the
// demonstration and the proofs import it.
package app
