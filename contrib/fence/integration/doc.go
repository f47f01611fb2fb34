// Package integration tests the fences on real servers: MariaDB, PostgreSQL and Redis from Debian's packages. The
// tests start them, on loopback and in temporary directories. compare/setup installs them; without them the tests
// fail.
package integration
