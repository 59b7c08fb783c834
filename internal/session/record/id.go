package record

import (
	"crypto/rand"
	"encoding/base32"
	"hash/maphash"
	"math"
	"strconv"
	"strings"
)

// ID names a session, and the client before that, from its request on. It is unique across restarts and proxies: Process is random
// for each process, and Number counts in it. Its text does not tell the number, nor how many clients have come between two: clients see it.
type ID struct {
	Process Process
	Number  uint64 // 1 for the first
}

// Process is the part of an [ID] that all sessions of a process share: characters of lower-case base32 (RFC 4648, section 6).
type Process [8]byte

// encoding has neither 0 nor 1, which could be mistaken for the letters o and l.
var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewProcess returns a Process that no other process has: 40 random bits.
func NewProcess() (p Process) {
	var random [5]byte
	_, _ = rand.Read(random[:]) // it never fails
	copy(p[:], strings.ToLower(encoding.EncodeToString(random[:])))
	return p
}

// String returns the id as operators and clients see it, such as q7m2kd4x-1042.
func (id ID) String() string { return string(id.append(make([]byte, 0, 20))) }

func (id ID) append(b []byte) []byte {
	b = append(append(b, id.Process[:]...), '-')
	return strconv.AppendUint(b, shuffle(id.Number), 10)
}

// ParseID reads what String returns.
func ParseID(text string) (id ID, ok bool) {
	process, number, ok := strings.Cut(text, "-")
	if !ok || len(process) != len(id.Process) {
		return ID{}, false
	}
	copy(id.Process[:], process)
	n, err := strconv.ParseUint(number, 10, 64)
	if id.Number = unshuffle(n); err != nil || id.String() != text { // not a leading zero, either
		return ID{}, false
	}
	return id, true
}

// shuffleSeed is the secret of this process by which numbers are shuffled.
var shuffleSeed = maphash.MakeSeed()

// shuffleRounds of a Feistel network are as good as any permutation (Luby and Rackoff, 1988).
const shuffleRounds = 4

// shuffle returns another number for each number: of the same 2^32 ones, in an order that cannot be guessed.
func shuffle(number uint64) uint64 {
	left, right := uint16(number>>16), uint16(number)
	for round := range shuffleRounds {
		left, right = right, left^shuffled(number, round, right)
	}
	return number&^math.MaxUint32 | uint64(left)<<16 | uint64(right)
}

// unshuffle returns the number for which shuffle returns this one.
func unshuffle(number uint64) uint64 {
	left, right := uint16(number>>16), uint16(number)
	for round := range shuffleRounds {
		left, right = right^shuffled(number, shuffleRounds-1-round, left), left
	}
	return number&^math.MaxUint32 | uint64(left)<<16 | uint64(right)
}

// shuffled is the function of one round.
func shuffled(number uint64, round int, half uint16) uint16 {
	return uint16(maphash.Comparable(shuffleSeed, [3]uint32{uint32(number >> 32), uint32(round), uint32(half)}))
}

// IDHeader is the field of the answer to an upgrade request that has the id. Package api names it for users.
const IDHeader = "X-Wsbouncer-Session-Id"
