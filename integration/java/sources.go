// Package java holds the source of the Java program that package javapeer
// compiles and drives.
package java

import "embed"

// Sources are the .java files; the class with the main method is Peer.
//
//go:embed *.java
var Sources embed.FS
