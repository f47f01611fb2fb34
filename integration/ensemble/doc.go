// Package ensemble tells stories of recipes on ensembles of three servers, of which one after the other has its troubles: what survives, what
// ends in time, and how soon somebody else takes over. What they hold to in the worst cases is in package promises.
package ensemble
