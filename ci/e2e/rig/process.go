package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const stopGrace = 5 * time.Second

// StopSignals ask a program to end in order. Under nohup a hangup is none.
func StopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// process is a child that runs in a process group of its own, so that a Ctrl-C
// in the terminal reaches only us, and we end the children in order.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *Log
	done chan struct{} // closed when it has ended
}

func startProcess(name string, cmd *exec.Cmd, log *Log) (*process, error) {
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = processAttributes()
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// On Linux the child is killed when the thread that started it ends:
		// this one stays until the child has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("rig: cannot start %s: %w", name, err)
	}
	return p, nil
}

// alive returns an error with the end of the log if the process has ended.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("rig: %s has ended (%s):\n%s", p.name, p.cmd.ProcessState, p.log.Tail(20))
	default:
		return nil
	}
}

// stop ends the process and all that it started.
func (p *process) stop() {
	signalGroup(p.cmd, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
	}
	signalGroup(p.cmd, syscall.SIGKILL)
	<-p.done
}

func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Memory returns the gateway's resident memory in bytes.
func (g *Gateway) Memory() (int64, error) {
	g.mu.Lock()
	p := g.processes[len(g.processes)-1] // started last
	g.mu.Unlock()
	n, err := residentMemory(p.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("rig: memory of %s: %w", p.name, err)
	}
	return n, nil
}
