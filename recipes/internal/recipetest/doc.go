// Package recipetest has helpers for the tests of recipes: clients in a synctest bubble, checks for nodes and watches that
// a recipe has left behind, and the tests that all holds have in common.
package recipetest
