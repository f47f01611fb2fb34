// Package curatorsuite tests, on a real server, the behaviours that Curator's own tests demand of the recipes that
// this library has as well: counters, kept nodes, groups, queues and service discovery. The tests are new code,
// written from the behaviours alone. README.md lists them, with the name of the test in Curator, and notes where this
// library differs on purpose.
package curatorsuite
