package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// CPU is the processor time that some processes used, user and system, all their
// threads and child processes. It counts in steps of 10 ms.
type CPU struct {
	Seconds   float64 `json:"seconds"`
	PerObject float64 `json:"us_per_object"` // microseconds
	Cores     float64 `json:"cores"`         // how many were busy on average
	Missing   string  `json:"missing,omitempty"`
}

// meter measures the processor time of some processes over a while.
type meter struct {
	pids   []int
	before time.Duration
	err    error
}

func selfPID() int { return os.Getpid() }

// startMeter begins to measure.
func startMeter(pids ...int) *meter {
	m := &meter{pids: pids}
	if len(pids) > 0 {
		m.before, m.err = cpuTime(pids)
	}
	return m
}

// stop returns what was used since the start, nil if no process was named.
func (m *meter) stop() *CPU {
	if len(m.pids) == 0 {
		return nil
	}
	after := m.before
	if m.err == nil {
		after, m.err = cpuTime(m.pids)
	}
	if m.err == nil && after < m.before {
		m.err = errors.New("a process ended during the measurement")
	}
	if m.err != nil {
		return &CPU{Missing: m.err.Error()}
	}
	return &CPU{Seconds: (after - m.before).Seconds()}
}

// CheckPID reports why the processor time of a process cannot be read.
func CheckPID(pid int) error {
	_, err := cpuTime([]int{pid})
	return err
}

// tick is the unit of the kernel's counts, the same on all of Go's Linuxes.
const tick = time.Second / 100

// cpuTime returns the processor time of processes and their descendants, except
// that we are nobody's descendant: a server may well run in the shell we were
// started from.
func cpuTime(pids []int) (time.Duration, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return 0, errors.New("processor time is not available: there is no /proc here")
	}
	children, err := childProcesses()
	if err != nil {
		return 0, err
	}
	seen := map[int]bool{}
	total := time.Duration(0)
	for _, pid := range pids {
		used, _, err := readStat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("there is no process %d", pid)
		}
		if err != nil {
			return 0, err
		}
		if !seen[pid] {
			seen[pid] = true
			total += used
		}
		total += descendants(pid, children, seen)
	}
	return total, nil
}

// process is a child and what it has used.
type process struct {
	pid  int
	used time.Duration
}

func descendants(pid int, children map[int][]process, seen map[int]bool) time.Duration {
	total := time.Duration(0)
	for _, child := range children[pid] {
		if seen[child.pid] || child.pid == selfPID() {
			continue
		}
		seen[child.pid] = true
		total += child.used + descendants(child.pid, children, seen)
	}
	return total
}

// childProcesses returns all processes by their parents.
func childProcesses() (map[int][]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		used, parent, err := readStat(pid)
		if err != nil {
			continue // it ended meanwhile
		}
		children[parent] = append(children[parent], process{pid, used})
	}
	return children, nil
}

// readStat returns what a process with its threads has used, and its parent.
func readStat(pid int) (used time.Duration, parent int, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is a name in parentheses and may hold anything.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("/proc/%d/stat makes no sense", pid)
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	user, err2 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err3 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, parent, errors.Join(err1, err2, err3)
}
