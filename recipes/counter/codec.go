package counter

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Codec encodes a value for a node and decodes it. Both functions are called on any goroutine.
type Codec[T any] struct {
	Encode func(T) ([]byte, error)
	// Decode may keep the data, which are not shared. Its error is reported as ErrBadValue.
	Decode func([]byte) (T, error)
}

// Bytes returns the codec that leaves the data unchanged: Curator's SharedValue and DistributedAtomicValue.
func Bytes() Codec[[]byte] {
	return Codec[[]byte]{
		Encode: func(data []byte) ([]byte, error) { return data, nil },
		Decode: func(data []byte) ([]byte, error) { return data, nil },
	}
}

// JSON returns the codec that uses encoding/json.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(data []byte) (v T, err error) {
			err = json.Unmarshal(data, &v)
			return v, err
		},
	}
}

// Like Curator's, numbers ignore extra bytes at the end.
var (
	longCodec  = Codec[int64]{encodeLong, emptyAsZero(decodeLong)}
	intCodec   = Codec[int32]{encodeInt, emptyAsZero(decodeInt)}
	countCodec = Codec[int32]{encodeInt, decodeInt}
)

// emptyAsZero reads a node without data as 0, as Curator's DistributedAtomicNumber does, and SharedCount does not.
func emptyAsZero[T Integral](decode func([]byte) (T, error)) func([]byte) (T, error) {
	return func(data []byte) (T, error) {
		if len(data) == 0 {
			return 0, nil
		}
		return decode(data)
	}
}

func encodeLong(n int64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, uint64(n)), nil }

func decodeLong(data []byte) (int64, error) {
	if len(data) < 8 {
		return 0, fmt.Errorf("%d bytes, a number has 8", len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

func encodeInt(n int32) ([]byte, error) { return binary.BigEndian.AppendUint32(nil, uint32(n)), nil }

func decodeInt(data []byte) (int32, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("%d bytes, a number has 4", len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}
