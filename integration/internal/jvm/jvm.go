// Package jvm finds the Java tools and the jars that the integration tests need. The setup script next to go.mod
// installs them; the .jars and .version files are read by both.
package jvm

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// jarDir is the directory of the jars of Debian's Java packages.
const jarDir = "/usr/share/java"

//go:embed server.jars
var serverJars string

//go:embed zookeeper.version
var zookeeperVersion string // the usual one

//go:embed upgrade.version
var upgradeVersion string // the release that is upgraded to the usual one

//go:embed curator.version
var curatorVersion string // the usual one

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

// ServerClasspath is the class path of the ZooKeeper server: the distribution in ZOOKEEPER_HOME when this is set,
// else the jars that Maven has fetched of the release ZK_VERSION, else Debian's jars, unless ZK_VERSION asks for
// another release.
func ServerClasspath() (string, error) {
	home := os.Getenv("ZOOKEEPER_HOME")
	if home == "" {
		return released("zookeeper", "ZK_VERSION", zookeeperVersion, serverJars)
	}
	for _, pattern := range []string{"lib/zookeeper-*.jar", "zookeeper-*.jar"} {
		if found, _ := filepath.Glob(filepath.Join(home, pattern)); len(found) > 0 {
			return filepath.Join(home, "lib", "*") + ":" + filepath.Join(home, "*"), nil
		}
	}
	return "", fmt.Errorf("%s: no zookeeper-*.jar in it or in its lib: %w", home, ErrMissing)
}

// ReleaseClasspath is the class path of a release of the server that Maven has
// fetched.
func ReleaseClasspath(version string) (string, error) {
	dir := filepath.Join(cacheDir(), "zookeeper-jars", version, "lib")
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("%s: %w", dir, ErrMissing)
	}
	return filepath.Join(dir, "*"), nil
}

// Upgrade is the releases of the server between which upgrades are tested.
func Upgrade() (from, to string) {
	return strings.TrimSpace(upgradeVersion), strings.TrimSpace(zookeeperVersion)
}

// CuratorClasspath is the class path of Java Curator with all it needs:
// CURATOR_CLASSPATH when this is set, else the jars that Maven has fetched of
// the release CURATOR_VERSION, else Debian's jars, unless CURATOR_VERSION asks
// for another release.
func CuratorClasspath() (string, error) {
	if cp := os.Getenv("CURATOR_CLASSPATH"); cp != "" {
		return cp, nil
	}
	return released("curator", "CURATOR_VERSION", curatorVersion, curatorJars)
}

// released returns the class path of the release that a variable asks for, or else the usual one.
func released(name, variable, usual, debian string) (string, error) {
	wanted := os.Getenv(variable)
	if wanted == "debian" {
		return jars(debian)
	}
	dir := filepath.Join(cacheDir(), name+"-jars", cmp.Or(wanted, strings.TrimSpace(usual)), "lib")
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "*"), nil
	} else if wanted != "" {
		return "", fmt.Errorf("%s is %s: %s: %w", variable, wanted, dir, ErrMissing)
	}
	return jars(debian)
}

// ServerVersion is the release of ServerClasspath, as in 3.8.0.
func ServerVersion() (string, error) { return versionIn("zookeeper", ServerClasspath) }

// CuratorVersion is the release of CuratorClasspath, as in 5.4.0.
func CuratorVersion() (string, error) { return versionIn("curator-recipes", CuratorClasspath) }

// versionIn returns the version in the name of a jar of a class path. The names of Debian's jars have none, but in
// the same directory is a link to each whose name has it.
func versionIn(jar string, classpath func() (string, error)) (string, error) {
	all, err := classpath()
	if err != nil {
		return "", err
	}
	name := regexp.MustCompile(`^` + jar + `-([0-9][0-9.]*)\.jar$`)
	for _, entry := range filepath.SplitList(all) {
		if filepath.Base(entry) == jar+".jar" {
			entry = filepath.Join(filepath.Dir(entry), jar+"-*.jar")
		}
		paths, _ := filepath.Glob(entry)
		for _, path := range paths {
			if found := name.FindStringSubmatch(filepath.Base(path)); found != nil {
				return found[1], nil
			}
		}
	}
	return "", fmt.Errorf("no %s-VERSION.jar in %s: %w", jar, all, ErrMissing)
}

func cacheDir() string {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), ".cache")
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
