// Package storetest is the contract that every store of a fleet's ledger passes.
package storetest
