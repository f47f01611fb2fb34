package zkcontainer

import (
	"fmt"
	"os/exec"
)

// script waits for the end of its input, which comes with the end of the process that started it, however that ends.
// It looks twice, because requests on their way to the daemon are executed all the same.
const script = `
read -r never
for delay in 0 2; do
	sleep $delay
	ids=$(docker ps -aq --filter "label=$1")
	[ -z "$ids" ] || docker rm -fv $ids
	ids=$(docker network ls -q --filter "label=$1")
	[ -z "$ids" ] || docker network rm $ids
done
`

// watchdog waits for the end of this process. It holds the other end of its input, which is never written to
// and never closed: the system does that when this process ends.
var watchdog *exec.Cmd

// watch starts a process that removes the containers that this one leaves behind. It is never waited for: it must
// outlive this process.
func watch() error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("there is neither Ryuk nor a docker command: %w", err)
	}
	cmd := exec.Command("sh", "-c", script, "zkcontainer", OwnerLabel+"="+self().String())
	if err := ownSession(cmd); err != nil {
		return err
	}
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	watchdog = cmd
	return nil
}
