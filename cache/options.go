package cache

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// TreeOption is an option of [NewTree]. Every [Option] is a TreeOption, too.
type TreeOption interface{ apply(*config) error }

// Option is an option of every kind of cache. If one is given several times the last counts, unless documented
// otherwise.
type Option interface {
	TreeOption
	general()
}

type generalOption func(*config) error

func (o generalOption) apply(c *config) error { return o(c) }
func (o generalOption) general()              {}

type treeOption func(*config) error

func (o treeOption) apply(c *config) error { return o(c) }

type config struct {
	client      *framework.Client
	root        string
	hideRoot    bool
	maxDepth    int // negative: no limit
	accept      func(path string) bool
	traverse    func(path string) bool
	decode      func(path string, data []byte, room int) ([]byte, error) // room is in bytes
	dataLimit   int                                                      // bytes of data; 0: depends on decode
	noData      bool
	createRoot  bool
	oneShot     bool
	eventBuffer int
	snapshot    *Snapshot
}

func configure[O TreeOption](client *framework.Client, root string, cfg config, opts []O) (config, error) {
	if err := client.Err(); errors.Is(err, framework.ErrNoClient) {
		return cfg, fmt.Errorf("cache: %w: %w", framework.ErrInvalidOption, err)
	}
	var fault *zkpath.Error
	if err := zkpath.Validate(root, false); errors.As(err, &fault) {
		return cfg, fmt.Errorf("cache: %w %q: %s", framework.ErrInvalidPath, fault.Path, fault.Reason)
	}
	cfg.client, cfg.root, cfg.eventBuffer = client, root, defaultBuffer
	for _, opt := range opts {
		if any(opt) == nil {
			return cfg, fmt.Errorf("cache: %w: an option is nil; leave it out", framework.ErrInvalidOption)
		}
		if err := opt.apply(&cfg); err != nil {
			return cfg, err
		}
	}
	if cfg.decode == nil && client.Compresses() {
		cfg.decode = clientDecoder(client)
	}
	switch {
	case cfg.dataLimit > 0:
	case cfg.decode != nil:
		cfg.dataLimit = defaultDataLimit
	default:
		cfg.dataLimit = math.MaxInt
	}
	if cfg.snapshot != nil {
		return cfg, cfg.snapshot.checkFits(&cfg)
	}
	return cfg, nil
}

// checkOption returns a function that calls set if ok, and otherwise returns an error.
func checkOption(ok bool, set func(*config), format string, args ...any) func(*config) error {
	return func(c *config) error {
		if !ok {
			return fmt.Errorf("cache: %w: %s", framework.ErrInvalidOption, fmt.Sprintf(format, args...))
		}
		set(c)
		return nil
	}
}

const (
	defaultBuffer    = 1024
	defaultDataLimit = 256 << 20
)

// WithBuffer sets how many events can wait for a subscriber before they are merged: see [Cache.Events].
// Default 1024. They are merged earlier when their paths and data exceed 16 MiB in total.
func WithBuffer(events int) Option {
	return generalOption(checkOption(events >= 1, func(c *config) { c.eventBuffer = events },
		"WithBuffer(%d): the buffer must have room for at least one event", events))
}

// WithoutData makes the cache keep no data, only each node's Stat. A node then costs less memory, and events
// contain no data either. The cache reads the same from the server. Default: data are kept.
func WithoutData() Option {
	return generalOption(func(c *config) error { c.noData = true; return nil })
}

// WithDataLimit limits the bytes of data in the cache, in total over its nodes, after decoding. Events that wait for
// subscribers do not count. A node whose data exceed the limit is [Failed] with [ErrDataLimit]: the cache keeps the
// last version that it had of that node, and all other nodes. It tries the node again within a minute when there is
// more room.
//
// Default: 256 MiB where data are decoded ([WithDecoder], [WithCompressedData], or a client with
// framework.WithCompression). A cache that keeps data as they are stored has no limit, since it needs no more memory
// for them than the servers.
//
// The number of nodes is not limited: the cache keeps all nodes that any client creates below the root. See
// [WithFilter] and [WithMaxDepth].
func WithDataLimit(bytes int) Option {
	return generalOption(checkOption(bytes >= 1, func(c *config) { c.dataLimit = bytes },
		"WithDataLimit(%d): give a positive number of bytes, or use WithoutData() to keep no data", bytes))
}

// WithDecoder makes the cache call f to turn the stored data of a node into the Data in the cache: for
// compressed or encrypted nodes. f runs on the cache's goroutine, for one node at a time; it must not block
// and must not use the cache. It may keep or return data itself. When f fails, the node is [Failed], and the
// cache keeps the last version that it had. [WithDataLimit] limits what f returns. Default: data are kept as
// they are stored. If the client has framework.WithCompression they are decompressed, with its provider, and
// kept as they are stored only where that is not possible; as in Curator since 5.8.
func WithDecoder(f func(path string, data []byte) ([]byte, error)) Option {
	return generalOption(checkOption(f != nil, func(c *config) {
		c.decode = func(path string, data []byte, _ int) ([]byte, error) { return f(path, data) }
	}, "WithDecoder: the function is nil; leave the option out"))
}

// WithCompressedData is a [WithDecoder] for data compressed with gzip, Curator's default: see [framework.Gzip]. Empty
// data stay empty. A node that cannot be decompressed, or would exceed 8 MiB, is [Failed] with framework.ErrDecompress
// (and ErrDecompressedTooLarge). A node whose data exceed the limit is Failed with [ErrDataLimit]. For another codec
// use WithDecoder(codec.Decompress).
func WithCompressedData() Option {
	return generalOption(func(c *config) error { c.decode = gunzip; return nil })
}

// WithRootCreated makes the cache create the root and its missing ancestors, as containers, whenever the root
// is missing, also after the server has removed it. Default: the cache waits for the root to appear, and
// never writes.
func WithRootCreated() Option {
	return generalOption(func(c *config) error { c.createRoot = true; return nil })
}

// WithOneShotWatches makes the cache use one-shot watches even if the server has persistent recursive
// watches. That takes two watches and a read per node, but after a reconnect in the same session only
// changed nodes are read. It pays for few nodes, or large nodes, over a bad connection. Default: a persistent
// recursive watch if the server has it.
func WithOneShotWatches() Option {
	return generalOption(func(c *config) error { c.oneShot = true; return nil })
}

// WithMaxDepth limits how deep the cache reaches: 0 is the root alone, 1 the root and its children. Default:
// no limit.
func WithMaxDepth(depth int) TreeOption {
	return treeOption(checkOption(depth >= 0, func(c *config) { c.maxDepth = depth },
		"WithMaxDepth(%d): 0 is the root alone; leave the option out for no limit", depth))
}

// WithFilter leaves out each node whose path accept rejects by returning false, and all nodes below it. accept is
// called for every node below the root, on the cache's goroutine: it must not block, must not use the cache, and must
// always return the same for a path. Given several times, a node is kept if all filters accept it. Default: no node is
// left out. Corresponds to acceptChild of Curator's TreeCacheSelector.
func WithFilter(accept func(path string) bool) TreeOption {
	return treeOption(checkOption(accept != nil, func(c *config) { c.accept = acceptBoth(c.accept, accept) },
		"WithFilter: the function is nil; leave the option out"))
}

// WithTraversal leaves out everything below each node whose path traverse rejects by returning false, but not the node
// itself. The rules of [WithFilter] apply to traverse. Default: nothing is left out. Corresponds to traverseChildren of
// Curator's TreeCacheSelector.
func WithTraversal(traverse func(path string) bool) TreeOption {
	return treeOption(checkOption(traverse != nil, func(c *config) { c.traverse = acceptBoth(c.traverse, traverse) },
		"WithTraversal: the function is nil; leave the option out"))
}

// acceptBoth returns a filter that accepts what both accept; first may be nil.
func acceptBoth(first, second func(path string) bool) func(path string) bool {
	if first == nil {
		return second
	}
	return func(path string) bool { return first(path) && second(path) }
}

// ErrDataLimit means that a node's data exceed the limit: see [WithDataLimit].
var ErrDataLimit = errors.New("no room for the node's data within the limit of WithDataLimit")

const decompressedLimit = 8 << 20

// gunzip decompresses data, and stops when they exceed the room.
func gunzip(path string, data []byte, room int) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	plain, err := framework.Gzip{Limit: max(1, min(room, decompressedLimit))}.Decompress(path, data)
	return plain, roomError(err, room)
}

// clientDecoder decompresses data as a client does that compresses by default.
func clientDecoder(client *framework.Client) func(path string, data []byte, room int) ([]byte, error) {
	return func(path string, data []byte, room int) ([]byte, error) {
		plain, err := client.UnpackedUpTo(path, data, max(1, min(room, decompressedLimit)))
		if !errors.Is(err, framework.ErrDecompressedTooLarge) {
			return plain, nil
		}
		return plain, roomError(err, room)
	}
}

// roomError returns the error of decompressing data, which is ErrDataLimit if the room was the limit.
func roomError(err error, room int) error {
	if room < decompressedLimit && errors.Is(err, framework.ErrDecompressedTooLarge) {
		// Without figures: an error with a different text each time would be reported each time.
		return fmt.Errorf("%w: %w", ErrDataLimit, framework.ErrDecompressedTooLarge)
	}
	return err
}
