// Package recipetest has helpers for the tests of recipes: clients in a bubble, checks for nodes and watches left at
// the end, and the tests that are the same for everything that can be acquired and released.
package recipetest
