package fleet

// Fair returns how many places each of the grants would have if all could move at once, in the order of the grants: floors first, then what is needed,
// then what is wanted, each step max-min fair by share, and the rest to those that have it already. The sum is at most the cap.
func Fair(a *Account) []int { panic("not written yet") }
