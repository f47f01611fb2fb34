package retry

// NewBackOffWith makes the backoff with a source of random numbers that the test controls.
var NewBackOffWith = ExponentialBackoff.newBackOff
