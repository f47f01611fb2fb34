// Package curator is the root of Curator for Go; it holds no code. See README.md.
package curator
