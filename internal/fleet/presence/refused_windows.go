package presence

import "golang.org/x/sys/windows"

// refused is what the system reports for a refused connection.
const refused = windows.WSAECONNREFUSED
