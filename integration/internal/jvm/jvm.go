// Package jvm finds the Java tools and the jars that the integration tests
// need. What it looks for is what the setup script next to go.mod provides; the
// two .jars files, and zookeeper.version, are read by both.
package jvm

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// jarDir is where Debian's Java packages put their jars.
const jarDir = "/usr/share/java"

//go:embed server.jars
var serverJars string

//go:embed zookeeper.version
var usual string // release of ZooKeeper

//go:embed curator.jars
var curatorJars string

// ErrMissing is wrapped by every error of this package.
var ErrMissing = errors.New("not found; run integration/setup")

// FastStart are the flags that bring a small JVM up in the shortest time.
func FastStart() []string {
	return []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"}
}

// Java is the path of the java command: JAVA_HOME's, or the one in PATH.
func Java() (string, error) { return tool("java") }

// Javac is the path of the Java compiler, found like Java.
func Javac() (string, error) { return tool("javac") }

func tool(name string) (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path := filepath.Join(home, "bin", name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("JAVA_HOME is %s: %s: %w", home, path, ErrMissing)
		}
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, ErrMissing)
	}
	return path, nil
}

// ServerClasspath is the class path of the ZooKeeper server: that of the
// distribution in ZOOKEEPER_HOME when this is set, else the jars that Maven has
// fetched of the release ZK_VERSION, else Debian's jars, unless ZK_VERSION asks
// for another release.
func ServerClasspath() (string, error) {
	home := os.Getenv("ZOOKEEPER_HOME")
	if wanted := os.Getenv("ZK_VERSION"); home == "" && wanted != "debian" {
		home = filepath.Join(cacheDir(), "zookeeper-jars", cmp.Or(wanted, strings.TrimSpace(usual)))
		if _, err := os.Stat(home); err != nil && wanted != "" {
			return "", fmt.Errorf("ZK_VERSION is %s: %s: %w", wanted, home, ErrMissing)
		} else if err != nil {
			home = ""
		}
	}
	if home == "" {
		return jars(serverJars)
	}
	for _, pattern := range []string{"lib/zookeeper-*.jar", "zookeeper-*.jar"} {
		if found, _ := filepath.Glob(filepath.Join(home, pattern)); len(found) > 0 {
			return filepath.Join(home, "lib", "*") + ":" + filepath.Join(home, "*"), nil
		}
	}
	return "", fmt.Errorf("%s: no zookeeper-*.jar in it or in its lib: %w", home, ErrMissing)
}

func cacheDir() string {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), ".cache")
}

// CuratorClasspath is the class path of Java Curator with all it needs:
// CURATOR_CLASSPATH when this is set, else Debian's jars.
func CuratorClasspath() (string, error) {
	if cp := os.Getenv("CURATOR_CLASSPATH"); cp != "" {
		return cp, nil
	}
	return jars(curatorJars)
}

func jars(list string) (string, error) {
	var paths []string
	for _, name := range strings.Fields(list) {
		path := filepath.Join(jarDir, name+".jar")
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", path, ErrMissing)
		}
		paths = append(paths, path)
	}
	return strings.Join(paths, ":"), nil
}
