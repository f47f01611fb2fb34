// Package zkcontainer runs real ZooKeeper servers in containers, with testcontainers, for the integration tests of
// services.
//
//	server, err := zkcontainer.Run(ctx)
//	testcontainers.CleanupContainer(t, server)
//	require.NoError(t, err)
//	connect, err := server.ConnectionString(ctx)
//
// [Run] starts one server; [RunEnsemble] several that form one ZooKeeper, behind proxies, whose members and links can
// be made to fail: it is a [github.com/go-curator/curator/integration/cluster.Cluster].
//
// The image is the official [DefaultImage]. The environment variable ZOOKEEPER_IMAGE names another for all,
// testcontainers.WithImage for one call. Where no registry can be reached, the script integration/image/build makes
// one of Debian's packages and of the release of ZooKeeper in ZK_VERSION, and prints its name.
//
// # Clean-up
//
// With Terminate nothing is left. If the process dies before, testcontainers' own Ryuk removes its containers. If
// Ryuk is disabled, or its image is neither on the machine nor available (this package then disables it for the
// process, and logs that), a small shell process waits for the end of this process and does the same with the docker
// command. Containers that remain even then are removed at the next use of this package on the same machine: see
// [Sweep].
//
// # The environment
//
// Before the first container two variables of testcontainers are set in this process if they have no value:
// TESTCONTAINERS_RYUK_DISABLED, as said above, and TESTCONTAINERS_HOST_OVERRIDE on machines that have a file
// /.dockerenv but are not containers, where testcontainers would look for the ports at the wrong address. A program
// that uses testcontainers before this package sets them itself, if they are needed. TESTCONTAINERS_RYUK_DISABLED=1
// works as well, although testcontainers itself only understands "true".
package zkcontainer
