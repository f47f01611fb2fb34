package cache

import (
	"iter"
	"slices"
	"strings"
)

// Filter returns the events of a stream for which all functions of keep return true, and the stream's error:
//
//	for event, err := range cache.Filter(c.Events(ctx), cache.OfType(cache.Deleted), cache.Below("/jobs"))
//
// The caller's own functions can be used as well. Corresponds to Curator's CuratorCacheListenerBuilder.
func Filter(events iter.Seq2[Event, error], keep ...func(Event) bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
	next:
		for ev, err := range events {
			if err == nil {
				for _, approves := range keep {
					if !approves(ev) {
						continue next
					}
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// OfType approves events of these types.
func OfType(types ...EventType) func(Event) bool {
	return func(ev Event) bool { return slices.Contains(types, ev.Type) }
}

// Below approves events of the node at path and of all below it, and events of no node: Initialized and
// ConnectionChanged.
func Below(path string) func(Event) bool {
	prefix := strings.TrimSuffix(path, "/") + "/"
	return func(ev Event) bool {
		return ev.Path == "" || ev.Path == path || strings.HasPrefix(ev.Path, prefix)
	}
}

// AfterInitialized approves the events after Initialized: the changes, and not the nodes that existed before. It is for
// one stream.
func AfterInitialized() func(Event) bool {
	initialized := false
	return func(ev Event) bool {
		if ev.Type == Initialized {
			initialized = true
			return false
		}
		return initialized
	}
}
