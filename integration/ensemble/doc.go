// Package ensemble tests the recipes on ensembles of three servers while one server after the other fails:
// what survives, what ends in time, and how soon somebody else takes over. The worst cases are in package
// promises.
package ensemble
