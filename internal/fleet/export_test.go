package fleet

// WithoutGuard runs a function with one of the guards left out, by its name. Nothing else may use the package meanwhile.
func WithoutGuard(name string, f func()) {
	for g, n := range guardNames {
		if n == name {
			guards = 1 << g
			defer func() { guards = 0 }()
			f()
			return
		}
	}
	panic("there is no guard " + name)
}

// Guards returns the names of all guards.
func Guards() []string {
	var names []string
	for _, n := range guardNames {
		names = append(names, n)
	}
	return names
}

var guardNames = map[guard]string{
	guardSequence: "sequence", guardDeparted: "departed", guardIdentity: "identity", guardStranger: "stranger", guardJoin: "join", guardBeats: "beats",
	guardLease: "lease", guardMissing: "missing", guardOthers: "others", guardFrozen: "frozen", guardFree: "free",
	guardForget: "forget", guardLent: "lent", guardReturned: "returned", guardUsed: "used", guardGranted: "granted", guardForgot: "forgot", guardTimeout: "timeout", guardAnswered: "answered",
}
