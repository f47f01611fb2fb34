// Package clients runs other clients against zktest, and in the same way against a real ZooKeeper:
// go-zookeeper, Java's ZooKeeper, Java Curator's recipes, kazoo. It also compares the speed of zktest and the
// Java server.
package clients
