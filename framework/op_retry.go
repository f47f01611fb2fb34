package framework

import "errors"

// errorClass is the significance of an error for the decision whether another try follows.
type errorClass int8

const (
	classRefused    errorClass = iota // the server or the client has refused the operation, and would refuse another try
	classFinal                        // the client is closed, or the outcome of a try cannot be determined
	classSession                      // the session is lost: another try runs in the next session
	classConnection                   // the connection or the server has failed, not the operation
)

func classifyError(err error) errorClass {
	switch {
	case errors.Is(err, errAmbiguous), errors.Is(err, ErrClosed):
		return classFinal
	case errors.Is(err, ErrSessionLost):
		return classSession
	case Retryable(err):
		return classConnection
	}
	return classRefused
}

// retrySituation has all inputs of the decision after an error.
type retrySituation struct {
	class        errorClass
	hasStep      bool // there is a recovery step for this error
	stepNumber   int  // the number of that step in this try, from 1
	policy       unknownOutcomePolicy
	unknown      bool // a try had an unknown outcome
	sessionBound bool // the operation runs through the view of one session
	background   bool
	tries        int // begun so far
}

// retryDecision is the next action of an operation after an error.
type retryDecision int8

const (
	giveUp   retryDecision = iota // return the error
	takeStep                      // take the recovery step, which may send the request again
	tryAgain                      // in the foreground if the retry policy allows it, in the background immediately
)

// decideRetry decides from the situation alone. In the background there is only one try, and a second try only to
// determine whether the first was executed.
func (s retrySituation) decideRetry() retryDecision {
	switch {
	case s.hasStep && s.stepNumber < maxRounds:
		return takeStep
	case s.class == classFinal:
	case s.background:
		if s.unknown && s.tries < 2 && (s.policy == unknownCompare || s.policy == unknownSearch) {
			return tryAgain
		}
	case s.unknown && s.policy == unknownGiveUp:
	case s.class == classSession && !s.sessionBound, s.class == classConnection:
		return tryAgain
	}
	return giveUp
}

// decideNext returns the next action after err. step is the recovery step for err, or nil; stepNumber is its number in
// this try, from 1.
func (r *operationRun[T]) decideNext(err error, step recoveryStep[T], stepNumber int) retryDecision {
	return retrySituation{
		class: classifyError(err), hasStep: step != nil, stepNumber: stepNumber, policy: r.unknownPolicy,
		unknown: r.unknownIn != nil, sessionBound: r.c.view.epoch != nil, background: r.background, tries: r.tries,
	}.decideRetry()
}
