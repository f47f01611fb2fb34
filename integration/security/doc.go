// Package security tests clients of real servers that demand authentication: TLS, mutual TLS, digest
// credentials, SASL, enforced authentication. It has only tests.
package security
