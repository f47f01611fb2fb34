// Package recipetest is what the tests of the recipes share: clients in a bubble, what must be left in the end, and the stories that are the same
// for everything that is acquired and given back.
package recipetest
