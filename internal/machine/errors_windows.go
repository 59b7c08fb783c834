package machine

import "syscall"

var shortages = []shortage{
	{10024, descriptors},       // WSAEMFILE
	{10055, memory},            // WSAENOBUFS
	{10049, ports},             // WSAEADDRNOTAVAIL
	{syscall.Errno(8), memory}, // ERROR_NOT_ENOUGH_MEMORY
}
