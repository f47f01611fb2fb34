// Package framework tests what the client offers besides sessions and recipes: transactions of every kind,
// compression with Java on the other side, whole subtrees, and the servers' own configuration. The module's
// README has a table of what is tested where.
package framework
