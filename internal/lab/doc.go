// Package lab is the storey of what stands in for the world outside: simulated servers, generated load, recorded clients, the demonstration.
// The proofs, the benchmarks and the commands that offer it to users (cli) import it; the proxy itself never does.
package lab
