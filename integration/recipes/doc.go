// Package recipes tests each recipe together with its counterpart in Curator for Java at the same nodes of a real
// server: what zktest and the stories under faults (package stories) cannot show.
package recipes
