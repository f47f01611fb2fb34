// Package recipes tests each recipe together with its counterpart in Curator for Java at the same nodes of a real
// server. Of the mutex it also compares the nodes byte for byte and counts the requests of both.
package recipes
