// Package integration tests the fences on real servers: MariaDB, PostgreSQL and Redis from Debian's packages,
// which the tests start themselves, on loopback and in directories of their own. compare/setup installs them;
// without them the tests fail.
package integration
