// Package framework tests what the client offers beside sessions and recipes: transactions of every kind, compression with Java on the other side, whole
// subtrees, and the servers' own configuration. The table of what is tested where is in the module's README.
package framework
