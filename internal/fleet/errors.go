package fleet

import "errors"

var (
	// ErrUnknown says that the ledger has no such proxy.
	ErrUnknown = errors.New("no such proxy")
	// ErrNoTables says that the database has no tables for the ledger: it was not migrated.
	ErrNoTables = errors.New("the database has no tables for grants")
	// ErrNoRights says that the database's user may not write the ledger.
	ErrNoRights = errors.New("the database's user may not write grants")
	// ErrDisk says that the store's file can be neither read nor written: the disk is full, or has failed.
	ErrDisk = errors.New("the disk with the file of grants is full or fails")
	// ErrUnreachable says that the store cannot be reached.
	ErrUnreachable = errors.New("the database of grants cannot be reached")
	// ErrNetworkFile says that the store's file is on a network file system, where locks cannot be trusted.
	ErrNetworkFile = errors.New("the file of grants is on a network file system")
)
