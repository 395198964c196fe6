package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// TestUpload interrupts `penstock put -r` of a few thousand files at random moments:
// the node is killed and started again, or the command is killed, or it is told to
// stop. Then it is run until it says that all is done.
func TestUpload(t *testing.T) {
	random := newRandom(t)
	u := &upload{subject: newSubject(t, random, dataDir(t)), source: newSource(t, random, 3000), outcomes: map[string]int{}}
	createBucket(t, u.client, uploads, penstock.BucketOptions{})
	rounds := setting(t, "UPLOADS", 5)
	for round := range rounds {
		u.prefix = fmt.Sprintf("round-%d/", round)
		u.round()
		if round == rounds-1 {
			u.get()
		}
		u.remove()
		if t.Failed() {
			t.Fatalf("in round %d", round+1)
		}
	}
	for _, f := range u.scrub() {
		t.Errorf("scrub found %+v", f)
	}
	t.Logf("%d rounds, an upload takes %v; %v", rounds, u.takes.Round(time.Millisecond), u.outcomes)
}

const uploads = "uploads"

// upload is a tree on its way to a node.
type upload struct {
	*subject
	source   *source
	prefix   string
	takes    time.Duration  // a run that nobody interrupted
	outcomes map[string]int // how often which disaster ended in what
}

// outcome is how a run of `put -r` ended.
type outcome struct {
	status    int // -1: a signal ended it
	stderr    string
	Files     int
	Unchanged int
	Skipped   int
	Failed    int
	Complete  bool
}

// round uploads the tree, with a few disasters on the way.
func (u *upload) round() {
	u.tb.Helper()
	if u.takes > 0 { // the first round shows how long it takes
		for range 1 + u.random.IntN(4) {
			u.disaster()
			if u.tb.Failed() {
				return
			}
		}
	}
	begun := time.Now()
	u.finish(u.put(nil))
	if u.takes == 0 {
		u.takes = time.Since(begun)
	}
	// What the command has called stored is durable.
	u.node.Kill()
	u.start()
	u.client.Close()
	if n := u.source.stored(u.tb, u.client, uploads, u.prefix); n != len(u.source.files) {
		u.tb.Errorf("%d files of %d are stored", n, len(u.source.files))
	}
	u.source.read(u.tb, u.client, uploads, u.prefix)
	for _, further := range []string{"", "--checksum"} {
		if again := u.put(nil, further); again.status != 0 || again.Files != 0 || again.Unchanged != len(u.source.files) {
			u.tb.Errorf("put -r %s of what is there already: %+v", further, again)
		}
	}
}

// get takes the tree back out, as users do. Once is enough, for read has compared all
// bytes: on a busy ext4 each new file took 0.03 to 1.2 ms, on tmpfs 0.01.
func (u *upload) get() {
	u.tb.Helper()
	back := filepath.Join(newDir(u.tb), "back")
	if out := u.command(nil, "get", "-r", "--json", uploads+"/"+u.prefix, back); out.status != 0 || out.Files != len(u.source.files) {
		u.tb.Errorf("get -r: %+v", out)
	}
	u.source.same(u.tb, back)
}

// remove makes room for the next round.
func (u *upload) remove() {
	u.tb.Helper()
	if out := u.command(nil, "rm", "-r", "--json", uploads+"/"+u.prefix); out.status != 0 || out.Files != len(u.source.files) {
		u.tb.Errorf("rm -r: %+v", out)
	}
	if n := u.source.stored(u.tb, u.client, uploads, u.prefix); n != 0 {
		u.tb.Errorf("%d files are there after rm -r", n)
	}
}

// finish wants a run to have done all there was to do.
func (u *upload) finish(o outcome) {
	u.tb.Helper()
	if o.status != 0 || !o.Complete || o.Failed != 0 || o.Skipped != 0 || o.Files+o.Unchanged != len(u.source.files) {
		u.tb.Errorf("put -r of %d files: %+v", len(u.source.files), o)
	}
}

// disaster runs the upload and interrupts it, and wants it to have been honest about
// that.
func (u *upload) disaster() {
	u.tb.Helper()
	wait := time.Duration(u.random.Int64N(int64(u.takes * 5 / 4)))
	var name string
	var o outcome
	switch u.random.IntN(3) {
	case 0:
		name = "node killed"
		o = u.put(func(*exec.Cmd) {
			time.Sleep(wait)
			u.node.Kill()
			time.Sleep(time.Duration(u.random.Int64N(int64(200 * time.Millisecond))))
			u.start()
		})
		u.client.Close() // its connections are dead
	case 1:
		name = "command killed"
		o = u.put(func(cmd *exec.Cmd) {
			time.Sleep(wait)
			_ = cmd.Process.Kill() // it may have ended by itself
		})
	case 2:
		name = "command interrupted"
		o = u.put(func(cmd *exec.Cmd) {
			time.Sleep(wait)
			_ = cmd.Process.Signal(os.Interrupt)
		})
		if o.status == 1 && !strings.Contains(o.stderr, "interrupted; run the command again to go on") {
			u.tb.Errorf("%s: %+v", name, o)
		}
	}
	switch {
	case o.status == 0:
		u.finish(o)
		u.outcomes[name+", all done"]++
		if n := u.source.stored(u.tb, u.client, uploads, u.prefix); n != len(u.source.files) {
			u.tb.Errorf("%s: exit status 0 with %d files of %d", name, n, len(u.source.files))
		}
	case o.status == 1 && !o.Complete && o.stderr != "":
		u.outcomes[name+", stopped"]++
		if name == "node killed" {
			u.tb.Logf("%s after %v: %s", name, wait.Round(time.Millisecond), o.stderr)
		}
	case o.status == -1 && name != "node killed": // an interrupt kills, too, before the command is there to be told
		u.outcomes[name]++
	default:
		u.tb.Errorf("%s: %+v", name, o)
	}
}

// put runs `put -r`, and wants it to send no more than what is missing.
func (u *upload) put(disturb func(*exec.Cmd), further ...string) outcome {
	u.tb.Helper()
	there := u.source.stored(u.tb, u.client, uploads, u.prefix)
	args := []string{"put", "-r", "--json", u.source.dir, uploads + "/" + u.prefix}
	for _, arg := range further {
		if arg != "" {
			args = append(args, arg)
		}
	}
	o := u.command(disturb, args...)
	// Behind a command that was killed the node may still store what was on its way,
	// so there may be more than was listed.
	if missing := len(u.source.files) - there; o.Files > missing {
		u.tb.Errorf("%d files were sent where %d were missing: %+v", o.Files, missing, o)
	}
	return o
}

// command runs penstock, and something that disturbs it beside.
func (u *upload) command(disturb func(*exec.Cmd), args ...string) outcome {
	u.tb.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary(u.tb), args...)
	cmd.Env = append(testcluster.Environ(), "PENSTOCK_ENDPOINT="+u.node.Endpoint)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		u.tb.Fatal(err)
	}
	if disturb != nil {
		disturb(cmd)
	}
	_ = cmd.Wait() // its status says how it ended
	o := outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
			u.tb.Errorf("%q: %v", stdout.String(), err)
		}
	}
	return o
}
