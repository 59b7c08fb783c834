package hunt

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Manner is how a session ends.
type Manner int

// The manners.
const (
	// CleanEnd ends the session as the protocol says, waits for the last result, and closes.
	CleanEnd Manner = iota
	// Impatient ends the session as the protocol says, but leaves without waiting for the last result, with a close frame or without.
	Impatient
	// CloseWithoutEnd sends a close frame in the middle of the session.
	CloseWithoutEnd
	// Vanish ends the stream (FIN or RST) between two messages.
	Vanish
	// VanishInFrame ends the stream in the middle of a frame.
	VanishInFrame
	// VanishInMessage ends the stream between two fragments of a message.
	VanishInMessage
	// Stall sends nothing for a while, and then leaves in one of the other manners that are not clean.
	Stall
)

const manners = int(Stall) + 1

var mannerNames = [manners]string{
	"clean-end", "impatient", "close-without-end", "vanish", "vanish-in-frame", "vanish-in-message", "stall",
}

func (m Manner) String() string { return mannerNames[m] }

// Manners are the relative shares of the manners. Each share is 0 or more.
type Manners [manners]int

// DefaultManners are mostly clean ends, so that connections are reused, and some of every other manner.
var DefaultManners = Manners{
	CleanEnd: 60, Impatient: 8, CloseWithoutEnd: 8, Vanish: 8, VanishInFrame: 6, VanishInMessage: 6, Stall: 4,
}

func (m Manners) validate() error {
	sum := 0
	for i, share := range m {
		if share < 0 {
			return fmt.Errorf("manners: the share %d of %v is negative", share, Manner(i))
		}
		sum += share
	}
	if sum == 0 {
		return errors.New("manners: all shares are 0: use a positive one")
	}
	return nil
}

// draw returns a random manner.
func (m Manners) draw(dice *rand.Rand) Manner { return Manner(kit.Draw(dice, m[:])) }

// ParseManners reads a comma-separated list of shares, such as "clean-end:9,vanish:1".
func ParseManners(text string) (Manners, error) {
	var m Manners
	for word := range strings.SplitSeq(text, ",") {
		name, share, _ := strings.Cut(strings.TrimSpace(word), ":")
		i := slices.Index(mannerNames[:], name)
		if i < 0 {
			return Manners{}, spelling.Unknown("manner", name, mannerNames[:])
		}
		if _, err := fmt.Sscan(share, &m[i]); err != nil {
			return Manners{}, fmt.Errorf("manners: %q: use name:share, where the share is a whole number", word)
		}
	}
	return m, m.validate()
}
