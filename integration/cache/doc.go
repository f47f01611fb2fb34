// Package cache compares the caches with Java Curator's, on one server and under one writer: their content in the
// end, their number of requests, how fast they load and how much memory they take. It also tests a cache of a tree
// that changes under every fault.
package cache
