// Package jute holds ZooKeeper's wire records and their codec.
//
// A frame on the wire is a 4-byte big-endian length, followed by the bytes that it counts. The first frame of
// a connection is a [ConnectRequest] (client) or [ConnectResponse] (server); every later one starts with a
// [RequestHeader] or a [ReplyHeader]. The layout of each record is pinned by golden bytes captured from a
// real server (testdata/).
//
// Writing cannot fail. Reading never panics, and never allocates more elements than the frame has room for. A
// [Coder] remembers its first error and reads zero values from then on. So the Fields method of a record
// needs no checks, and the caller checks Err once, at the end.
package jute
