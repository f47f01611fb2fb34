// Package framework tests the client's features other than sessions and recipes: transactions of every kind,
// compression with Java on the other side, whole subtrees, and the servers' own configuration. The module's README
// has a table of all tests.
package framework
