package framework

import "fmt"

// defaultMaxFrame is the servers' jute.maxbuffer unless configured.
const defaultMaxFrame = 0xfffff

// cutOffError says that the server has closed the connection while a large request was under way. That is how
// it refuses a request above its limit, but it may have had other reasons. So the request is repeated, once.
// If the same happens again, or the request is larger than what servers take by default, that is final.
type cutOffError struct {
	size  int
	final bool
}

// errCutOff matches a cutOffError that is final.
var errCutOff = named("cut off")

func (e *cutOffError) Error() string {
	if e.final {
		return fmt.Sprintf("the server closes the connection on this request of %d bytes: "+
			"most likely it is larger than its jute.maxbuffer (%d unless configured), "+
			"which WithMaxFrame has to agree with; whether it was executed is not known", e.size, defaultMaxFrame)
	}
	return fmt.Sprintf("%v; it has %d bytes, which may be more than the server's jute.maxbuffer",
		ErrConnectionLoss, e.size)
}

func (e *cutOffError) Is(target error) bool {
	return e.final && (target == ErrTooLarge || target == errCutOff)
}
func (e *cutOffError) Unwrap() error { return ErrConnectionLoss }
