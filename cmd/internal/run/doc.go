// Package run runs a command under a hold: it starts the command's keeper, sends it the time until which the hold is
// certain, passes signals on, and returns when all processes of the command have ended. Only then may the caller
// release the hold.
package run
