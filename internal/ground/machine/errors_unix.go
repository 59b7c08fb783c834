//go:build unix

package machine

import "syscall"

var shortages = []shortage{
	{syscall.EMFILE, descriptors},
	{syscall.ENFILE, descriptors + " of the whole system"},
	{syscall.ENOBUFS, memory},
	{syscall.ENOMEM, memory},
	{syscall.EADDRNOTAVAIL, ports},
	{syscall.EADDRINUSE, ports},                                   // what bind returns where it chooses the port
	{syscall.ENOSPC, "epoll watches (fs.epoll.max_user_watches)"}, // the error is one of epoll: what is checked here never writes to a disk
}

const noAddress = syscall.EADDRNOTAVAIL
