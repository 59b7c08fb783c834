// Package testkit is the wing of what tests share: peers that the test plays, contracts that every store passes, certificates, databases.
// Only tests and proofs import it.
package testkit
