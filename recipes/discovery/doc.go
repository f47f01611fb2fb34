// Package discovery registers the instances of services, and finds them.
//
//	services, err := discovery.New[Info](client, "/services")
//	me, err := services.Register(ctx, discovery.Instance[Info]{Name: "web", Address: "10.0.0.7", Port: 80})
//	defer me.Unregister(ctx)
//
//	web, err := services.Cache("mail")
//	defer web.Close()
//	provider, err := discovery.NewProvider(web)
//	instance, err := provider.Instance()
//
// An instance is a node below that of its service, kept by the rules of package node: made anew after the end
// of the session and after somebody has deleted it, with what the last [Registration.Update] has said.
// A [Cache] is the instances of one service, in memory, and a [Provider] chooses one of them.
//
//   - A registration says whether its node is there, and [Registration.Unregister] takes it away for certain.
//   - Nothing flaps. In a session that goes on, a reconnect writes nothing.
//   - A cache keeps what it knows while there is no connection. It learns what has changed after that.
//   - A node that is no instance is left out, logged, and listed by [Cache.Failures]. The others are there.
//
// That an instance is registered does not mean that it can be reached: a process that has died is there until
// its session ends, a session timeout later. [Provider.NoteError] keeps away from such an instance.
//
// # Payload
//
// The type parameter is what an instance has besides addresses. encoding/json writes it; use any if there is
// none. An instance whose payload does not fit that type is a failure. With json.RawMessage the payload is
// the text as it was written, including what Java says about types.
//
// Java's payload has the name of its class: objects as "@class", first, everything else but strings, booleans,
// ints and doubles as ["class", value]. Readers here take the name off. A Java reader whose payload is a
// class of its own needs it: see [WithPayloadClass]. Without that, an object is a Map to Java, and an array
// is written as a java.util.ArrayList.
//
// # What it costs
//
// Registering takes a create and an exists, updating a setData and an exists, unregistering a delete. At rest
// a registration reads as package node says, and nothing is written. A cache costs what package cache says:
// one request per change, and none to ask. A provider sends nothing.
//
// # Curator for Java
//
// Nodes and data are those of x-discovery, read and written by both. Three things differ. An instance that is
// [Instance].Disabled says so, where Java by default drops it: "enabled" is written only then. The name of a
// [DynamicSequential] node begins with "_c_" and a UUID, so that none is left when a reply was lost. And Java
// deletes a registered node and makes it again after each reconnect; a cache sees that. Give each instance an ID
// of its own: Java deletes whatever it meets at its ID, and of two that want one either may have it in the end.
package discovery
