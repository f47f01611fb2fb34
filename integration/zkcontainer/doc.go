// Package zkcontainer runs real ZooKeeper servers in containers, by way of testcontainers, for the integration tests of services.
//
//	server, err := zkcontainer.Run(ctx)
//	testcontainers.CleanupContainer(t, server)
//	require.NoError(t, err)
//	connect, err := server.ConnectionString(ctx)
//
// [Run] starts one server; [RunEnsemble] several that form one ZooKeeper, behind proxies, whose members and links can be made to fail: it is
// a [github.com/go-curator/curator/integration/cluster.Cluster].
//
// The image is the official [DefaultImage]. The environment variable ZOOKEEPER_IMAGE names another for all, testcontainers.WithImage for one
// call. Where no registry can be reached, the script integration/image/build makes one from Debian's packages and prints its name.
//
// # What is left behind
//
// Nothing, as long as Terminate is called. Of a process that dies before, testcontainers' own Ryuk removes all. Where Ryuk is disabled, or
// its image is neither on the machine nor to be had (this package then disables it for the process, and says so), a small shell process waits
// for the end of ours and does the same with the docker command. What even that cannot remove goes with the next use of this package on the
// same machine: see [Sweep].
//
// # The environment
//
// Before the first container two variables of testcontainers are set in this process if they have no value: TESTCONTAINERS_RYUK_DISABLED,
// as said above, and TESTCONTAINERS_HOST_OVERRIDE on machines that look like a container for their file /.dockerenv and are none, where
// testcontainers would look for the ports at the wrong address. Whoever uses testcontainers before this package sets them, where need be.
// TESTCONTAINERS_RYUK_DISABLED=1 is taken as meant: testcontainers itself only understands "true".
package zkcontainer
