// Package security tests clients of real servers that want to know who they
// are: TLS, mutual TLS, digest credentials, SASL, enforced authentication. It
// has no code of its own.
package security
