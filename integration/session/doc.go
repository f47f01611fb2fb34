// Package session tests a client and its sessions on a real server: what a user sees when the server comes,
// goes, hangs, forgets and refuses. Each test runs two clients at once, which must not disturb each other.
package session
