// Package ground is the storey of the small things that every other storey may import: what the machine grants, counters, texts of values,
// spelling. It imports nothing of ours. A package belongs here if at least two storeys need it.
package ground
