// Package clients has other people's clients work against zktest, and against a real ZooKeeper the same way: go-zookeeper, Java's ZooKeeper,
// Java Curator's recipes, kazoo. It also measures zktest beside the Java server.
package clients
