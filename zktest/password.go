package zktest

import "encoding/binary"

// passwordSeed is ZooKeeper's constant. With it a session's password follows from its id, which every
// ephemeral node shows.
const passwordSeed = 0xB3415C00

// sessionPassword returns the bytes of java.util.Random(id ^ passwordSeed).nextBytes.
func sessionPassword(id int64) []byte {
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	state := (uint64(id^passwordSeed) ^ multiplier) & mask
	p := make([]byte, 16)
	for i := 0; i < len(p); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}
