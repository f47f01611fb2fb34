// Package differential runs the same histories against zktest and against a real ZooKeeper and compares the messages
// that their clients receive.
//
// A history is a list of [Op], done one after the other by a few sessions that speak the protocol frame by frame. The
// outcome of an operation is the text of the messages that each session received up to its reply, events first. In it
// ids, zxids and times are replaced by the order of their first use: zxids count from the history's beginning,
// sessions are numbered, a time is replaced by its zxid. Servers agree when all texts are equal.
//
// A history with a difference is shrunk: operations are left out and simplified as long as the difference remains.
// The rest is printed as a script, one operation a line, which [Parse] reads. Scripts worth keeping are in testdata.
//
//	CURATOR_DIFFERENTIAL_SEED    the first seed; by default one for each day
//	CURATOR_DIFFERENTIAL_COUNT   how many random histories, default 4000
//	CURATOR_DIFFERENTIAL_SCRIPT  a file with a script to be run instead
package differential
