// Package jute holds ZooKeeper's wire records and their codec.
//
// A frame on the wire is a 4-byte big-endian length and that many bytes. The first frame of a connection is a
// [ConnectRequest] (client) or [ConnectResponse] (server); every later one starts with a [RequestHeader] or a
// [ReplyHeader]. The layout of each record is pinned by golden bytes captured from a real server (testdata/).
//
// Writing cannot fail. Reading never panics and never allocates more than the frame could hold: a [Coder]
// remembers its first error, and what it reads from then on is zero. So a record's Fields needs no checks in
// between, and the caller asks Err once.
package jute
