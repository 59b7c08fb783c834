package machine

import "syscall"

var shortages = []shortage{
	{10024, descriptors}, // WSAEMFILE
	{10055, memory},      // WSAENOBUFS
	{noAddress, ports},
	{10048, ports},             // WSAEADDRINUSE
	{syscall.Errno(8), memory}, // ERROR_NOT_ENOUGH_MEMORY
}

const noAddress = syscall.Errno(10049) // WSAEADDRNOTAVAIL
