// Package recipetest is what the tests of the recipes share: clients in a bubble, checks of what is left in
// the end, and the stories that are the same for everything that can be acquired and released.
package recipetest
