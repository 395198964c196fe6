package main

import (
	"context"
	"fmt"
	"os/exec"
)

func dd(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "dd", "if="+from, "of="+to, "bs=1M", "conv=fsync", "status=none").CombinedOutput()
	if err != nil {
		return fmt.Errorf("dd: %w: %s", err, out)
	}
	return nil
}
