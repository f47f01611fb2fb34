// Package run runs a command under a hold: it starts the command's keeper, tells it until when the hold is
// certain, passes signals on, and returns when nothing of the command is left. Only then may the caller give
// up the hold.
package run
