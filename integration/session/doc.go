// Package session tests a client and its sessions on a real server that comes, goes, hangs, forgets and refuses. Each
// test runs two clients at the same time, which must not disturb each other.
package session
