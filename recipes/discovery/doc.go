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
// An instance is a child of its service's node, maintained by the rules of package node: recreated after the end of
// the session and after another client has deleted it, with the data of the last [Registration.Update]. A [Cache]
// keeps the instances of one service in memory, and a [Provider] chooses one of them.
//
//   - A registration reports whether its node is there, and [Registration.Unregister] deletes it for certain.
//   - Registrations do not flap. A reconnect in the same session writes nothing.
//   - A cache keeps its instances while the connection is suspended, and reads the changes after the reconnect.
//   - A node that is not an instance is left out, logged, and listed by [Cache.Failures], without affecting the
//     others.
//
// That an instance is registered does not mean that it can be reached: the instance of a process that has died exists
// until its session expires, a session timeout later. [Provider.NoteError] excludes such an instance.
//
// # Payload
//
// The type parameter is the type of an instance's payload, its data apart from addresses. encoding/json writes it;
// use any if there is none. An instance whose payload does not fit that type is a failure. With json.RawMessage the
// payload is the text as it was written, including Java's type information.
//
// Java's payload has the name of its class: objects as "@class", first, everything else but strings, booleans, ints
// and doubles as ["class", value]. Readers here remove the name. A Java reader needs it if its payload is a custom
// class: see [WithPayloadClass]. Without that, an object is a Map to Java, and an array is written as a
// java.util.ArrayList.
//
// # Requests
//
// Registering takes a create and an exists, updating a setData and an exists, unregistering a delete. At rest a
// registration reads as described in package node, and nothing is written. A cache costs one request per change, and
// none to read, as described in package cache. A provider sends nothing.
//
// # Curator for Java
//
// Nodes and data have the layout of x-discovery, and both read and write them. There are three differences. "enabled"
// is written only for an instance that is [Instance].Disabled; Java by default omits it. The name of a
// [DynamicSequential] node begins with "_c_" and a UUID, so that none is left when a reply was lost. And Java deletes
// a registered node and recreates it after each reconnect; a cache sees that. Give each instance a unique ID: Java
// deletes any node that it finds at its ID, and of two instances with one ID either may have the node in the end.
package discovery
