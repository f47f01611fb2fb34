// Package session holds the stories of a client and its sessions on a real server: what a user sees when it comes, goes, hangs, forgets and
// refuses. Each is played by two clients at once, which must not get into each other's way.
package session
