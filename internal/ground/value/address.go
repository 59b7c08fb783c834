package value

import (
	"net"
	"strconv"
)

// CheckAddress checks a host:port to listen on, whose port is a number.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return Invalid("address", address, "host:port, such as 127.0.0.1:8080")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Invalid("address", address, "a port from 0 to 65535")
	}
	return nil
}

// AnyPort reports whether a host:port lets the system choose the port. Such an address may be used more than once.
func AnyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	return err == nil && n == 0
}
