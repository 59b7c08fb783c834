// Package proof is the storey of what tries the whole proxy for minutes: processes that are killed, servers that break the protocol, clients
// that lie, every state of the fleet's protocol. Nothing imports it but tests and its own commands; it may import every other storey but cli.
//
// Proofs that the Makefile runs as commands have a folder cmd.
package proof
