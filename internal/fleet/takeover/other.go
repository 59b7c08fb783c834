//go:build !linux

package takeover

import (
	"context"
	"net"
)

// conn is the connection between the two processes; there is none on this system.
type conn struct{}

// Supported returns [ErrUnsupported].
func Supported() error { return ErrUnsupported }

// Possible returns [ErrUnsupported].
func Possible() error { return ErrUnsupported }

// Instance returns an empty text: there is no take-over that needs it.
func Instance(string) string { return "" }

// Hand returns [ErrUnsupported].
func Hand(context.Context, *net.UnixConn, *Offer) (*Successor, error) { return nil, ErrUnsupported }

// Refuse does nothing.
func Refuse(*net.UnixConn, string) {}

// Ask returns [ErrUnsupported].
func Ask(context.Context, *net.UnixConn, Process) (*Succession, error) { return nil, ErrUnsupported }

// Connection returns [ErrUnsupported].
func Connection(string) (*net.UnixConn, bool, error) { return nil, true, ErrUnsupported }

// Step does nothing.
func (s *Succession) Step(string) {}

// Ready returns [ErrUnsupported].
func (s *Succession) Ready(context.Context, string) error { return ErrUnsupported }

// Serving returns [ErrUnsupported].
func (s *Succession) Serving([]int) (net.Conn, error) { return nil, ErrUnsupported }

// Fail does nothing.
func (s *Succession) Fail(error) {}

// Find returns [ErrUnsupported].
func (p *Program) Find(string) (path, name string, err error) { return "", "", ErrUnsupported }

// Check returns [ErrUnsupported].
func (p *Program) Check(context.Context, string, func(string)) error { return ErrUnsupported }

// Start returns [ErrUnsupported].
func (p *Program) Start(path, name string) (*Child, error) { return nil, ErrUnsupported }

// End does nothing.
func (c *Child) End() {}

// Close does nothing.
func (c *Child) Close() {}
