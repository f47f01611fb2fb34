// Package cache sets the caches beside Java Curator's, on one server and under one writer: what they hold in the end, what they ask of the server,
// how fast they load and what they weigh; and it leaves one alone with a tree that changes under every fault there is.
package cache
