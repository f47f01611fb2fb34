// Package curatorsuite tests, on a real server, the behaviours that Curator's own tests demand of the recipes that
// this library has as well: counters, kept nodes, groups, queues and service discovery. The tests are written anew,
// from what the behaviours are. README.md lists them, with the name of Curator's test, and says where this library
// differs on purpose.
package curatorsuite
