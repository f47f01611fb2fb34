package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// piece is machine code for a place in the vDSO.
type piece struct {
	at   int64
	text []byte
}

const (
	room = 64 // for a function of this package; at the end of the last page, which the vDSO does not fill
	jump = 5  // bytes of one
)

// patch returns the changes of a vDSO of amd64: this package's functions, and jumps to them at the entries of the
// kernel's.
func patch(vdso []byte, by time.Duration) (pieces []piece, err error) {
	file, err := elf.NewFile(bytes.NewReader(vdso))
	if err != nil {
		return nil, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	ours := functions(int64(by / time.Second))
	free := len(vdso) - room*len(ours)
	if free < 0 || len(bytes.Trim(vdso[free:], "\x00")) > 0 {
		return nil, errors.New("clock: the vDSO has no room left: the clock was stepped before, or the kernel is not one of those known")
	}
	for _, symbol := range symbols {
		text, ok := ours[symbol.Name]
		if !ok {
			continue
		}
		delete(ours, symbol.Name)
		if symbol.Size < jump || symbol.Value+symbol.Size > uint64(free) {
			return nil, fmt.Errorf("clock: the vDSO's %s cannot be replaced", symbol.Name)
		}
		there := free + room*len(ours)
		here := int64(symbol.Value)
		pieces = append(pieces, piece{int64(there), text},
			piece{here, binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int64(there)-here-jump))})
	}
	if len(ours) > 0 {
		return nil, errors.New("clock: the vDSO does not have all of clock_gettime, gettimeofday and time")
	}
	return pieces, nil
}

// functions do the work of the kernel's by a system call, and add seconds to the wall clock.
func functions(seconds int64) map[string][]byte {
	offset := binary.LittleEndian.AppendUint64([]byte{0x48, 0xb9}, uint64(seconds)) // mov rcx, seconds
	return map[string][]byte{
		"__vdso_clock_gettime": bytes.Join([][]byte{
			{0xb8, 228, 0, 0, 0}, // mov eax, SYS_clock_gettime
			{0x0f, 0x05},         // syscall
			{0x85, 0xc0},         // test eax, eax
			{0x75, 22},           // jne to the ret
			{0x85, 0xff},         // test edi, edi: CLOCK_REALTIME
			{0x74, 5},            // je to the mov
			{0x83, 0xff, 5},      // cmp edi, CLOCK_REALTIME_COARSE
			{0x75, 13},           // jne to the ret
			offset,
			{0x48, 0x01, 0x0e}, // add [rsi], rcx
			{0xc3},             // ret
		}, nil),
		"__vdso_gettimeofday": bytes.Join([][]byte{
			{0xb8, 96, 0, 0, 0}, // mov eax, SYS_gettimeofday
			{0x0f, 0x05},        // syscall
			{0x85, 0xc0},        // test eax, eax
			{0x75, 18},          // jne to the ret
			{0x48, 0x85, 0xff},  // test rdi, rdi
			{0x74, 13},          // je to the ret
			offset,
			{0x48, 0x01, 0x0f}, // add [rdi], rcx
			{0xc3},             // ret
		}, nil),
		"__vdso_time": bytes.Join([][]byte{
			{0x48, 0x89, 0xfa},   // mov rdx, rdi
			{0x31, 0xff},         // xor edi, edi
			{0xb8, 201, 0, 0, 0}, // mov eax, SYS_time
			{0x0f, 0x05},         // syscall
			offset,
			{0x48, 0x01, 0xc8}, // add rax, rcx
			{0x48, 0x85, 0xd2}, // test rdx, rdx
			{0x74, 3},          // je to the ret
			{0x48, 0x89, 0x02}, // mov [rdx], rax
			{0xc3},             // ret
		}, nil),
	}
}
