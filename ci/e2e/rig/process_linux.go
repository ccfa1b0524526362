package rig

import (
	"fmt"
	"os"
	"syscall"
)

// processAttributes make a child end with us, however we end.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func residentMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var all, resident int64
	if _, err := fmt.Sscan(string(b), &all, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}
