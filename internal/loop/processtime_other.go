//go:build !unix

package loop

import "time"

// processTime would return the processor time that the process has used; here it is not known.
func processTime() (time.Duration, bool) { return 0, false }
