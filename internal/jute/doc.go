// Package jute holds ZooKeeper's wire records and their codec.
//
// A frame on the wire is a 4-byte big-endian length and that many bytes. The first frame of a connection is a
// [ConnectRequest] (client) or [ConnectResponse] (server); every later one starts with a [RequestHeader] or a
// [ReplyHeader]. The layout of each record is pinned by golden bytes captured from a real server (testdata/).
//
// Encoding cannot fail. Decoding never panics and never allocates more than the frame could hold: a [Decoder]
// remembers its first error and returns zero values from then on. So a record's Decode needs no checks in
// between, and the caller asks Err once.
package jute
