// Package recipes tests each recipe beside its counterpart in Curator for Java at the same nodes of a real
// server. The mutex has a package of its own.
package recipes
