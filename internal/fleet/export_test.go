package fleet

// LedgerGuards and HolderGuards are how many guards there are.
const (
	LedgerGuards = int(GuardForget) + 1
	HolderGuards = int(GuardAnswered-GuardUsed) + 1
)
