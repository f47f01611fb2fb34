package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// isCopy is an environment variable that makes a process a copy of the demonstration. Only the test needs it: the
// program has flags.
const isCopy = "LEADER_SERVICE_COPY"

// process is a copy of the service in a separate process.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.Closer
	address string
	ended   chan struct{} // closed when it has ended, with err
	err     error
}

// line is a line of a copy's output, with the time of its reading.
type line struct {
	from *process
	text string
	at   time.Time
}

// start begins a copy; all its output goes to heard, before ended is closed.
func start(name string, heard func(line), args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), isCopy+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = p.cmd.Stdout
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			heard(line{p, lines.Text(), time.Now()})
		}
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// end makes sure that the process has ended: first by a signal that it can handle, after a while by killing
// it.
func (p *process) end() {
	_ = p.stdin.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
}

// ask sends a request to the copy, following redirections, and returns the first line of the answer.
func (p *process) ask(ctx context.Context, method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, p.address+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	answer, _, _ := strings.Cut(string(body), "\n")
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s of %s: %s: %s", method, path, p.name, response.Status, answer)
	}
	return answer, nil
}
