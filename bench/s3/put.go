package main

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	putSize = 10 << 20
	putEach = 20
)

// form is a way to send a body.
type form struct {
	name string
	req  request
	body [][]byte
}

// forms are the ways that clients have: without a digest; in chunks with a checksum
// behind them, as boto3 does over TLS; with two digests before it, as boto3 does
// without TLS, where it signs the content; with the MD5 before it, as rclone does.
func forms(body []byte) []form {
	sum := crc32.ChecksumIEEE(body)
	crc := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
	digest, md5sum := sha256.Sum256(body), md5.Sum(body)
	var chunks [][]byte
	var total int64
	const chunk = 1 << 20 // botocore's
	add := func(p []byte) { chunks, total = append(chunks, p), total+int64(len(p)) }
	for at := 0; at < len(body); at += chunk {
		piece := body[at:min(at+chunk, len(body))]
		add([]byte(strconv.FormatInt(int64(len(piece)), 16) + "\r\n"))
		add(piece)
		add([]byte("\r\n"))
	}
	add([]byte("0\r\nx-amz-checksum-crc32:" + crc + "\r\n\r\n"))
	return []form{
		{"unsigned payload", request{payload: unsigned, length: int64(len(body))}, [][]byte{body}},
		{"chunks, CRC32 behind", request{payload: trailer, length: total, fields: []field{
			{"content-encoding", "aws-chunked"},
			{"x-amz-decoded-content-length", strconv.Itoa(len(body))},
			{"x-amz-sdk-checksum-algorithm", "CRC32"},
			{"x-amz-trailer", "x-amz-checksum-crc32"},
		}}, chunks},
		{"SHA-256 and CRC32 before", request{payload: hex.EncodeToString(digest[:]), length: int64(len(body)), fields: []field{
			{"x-amz-checksum-crc32", crc}, {"x-amz-sdk-checksum-algorithm", "CRC32"},
		}}, [][]byte{body}},
		{"Content-MD5 before", request{payload: unsigned, length: int64(len(body)), fields: []field{
			{"content-md5", base64.StdEncoding.EncodeToString(md5sum[:])},
		}}, [][]byte{body}},
	}
}

// puts compares large durable writes with dd of the same bytes and with one core's
// MD5, which S3 demands of every object, each beside the others.
func (b *bench) puts() error {
	fmt.Printf("\nPUT 10 MiB, durable, %d a round one after the other, beside dd conv=fsync of the same bytes and MD5 of them\n", putEach)
	fmt.Printf("%-26s %-12s  %8s  %8s  %8s  %18s  %16s  %14s\n", "", "", "MB/s", "dd", "MD5", "/ smaller of both", "server CPU s/GB", "MD5 alone s/GB")
	body := make([]byte, putSize)
	rand.NewChaCha8([32]byte{}).Read(body) //nolint:errcheck // never fails
	source := filepath.Join(b.files, "dd-source")
	if err := os.WriteFile(source, body, 0o644); err != nil {
		return err
	}
	for _, f := range forms(body) {
		all := b.stores()
		ours, ratios, perGB := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
		var disk, digest, digestCPU []float64
		for round := range b.o.rounds + 1 {
			results := make([]result, len(all))
			for i, s := range all {
				var err error
				if results[i], err = b.putRound(s, &f, round); err != nil {
					return err
				}
			}
			dd, err := b.ddRound(source)
			if err != nil {
				return err
			}
			md5, md5CPU, err := md5Round(body)
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			disk, digest, digestCPU = append(disk, dd), append(digest, md5), append(digestCPU, md5CPU)
			for i, r := range results {
				ours[i], ratios[i], perGB[i] = append(ours[i], r.rate()), append(ratios[i], r.rate()/min(dd, md5)), append(perGB[i], r.perGB())
			}
		}
		for i, s := range all {
			fmt.Printf("%-26s %-12s  %8.0f  %8.0f  %8.0f  %18.2f  %16.2f  %14.2f\n", f.name, s.name,
				median(ours[i]), median(disk), median(digest), median(ratios[i]), median(perGB[i]), median(digestCPU))
		}
	}
	return nil
}

func (b *bench) putRound(s *server, f *form, round int) (result, error) {
	var names []string
	r, err := load(s, 1, putEach, func(c *conn, i int) (int64, error) {
		req := f.req
		req.method, req.path = "PUT", fmt.Sprintf("/bench/put-%d-%d", round, i)
		names = append(names, req.path)
		_, err := c.do(&req, nil, f.body...)
		return putSize, err
	})
	if err != nil {
		return r, err
	}
	for _, path := range names { // so that no round fills what the next one needs
		if err := once(s, &request{method: "DELETE", path: path, payload: nothing, length: -1}); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (b *bench) ddRound(source string) (float64, error) {
	begin := time.Now()
	for i := range putEach {
		if err := dd(b.ctx, source, filepath.Join(b.files, fmt.Sprintf("dd-%d", i))); err != nil {
			return 0, err
		}
	}
	wall := time.Since(begin)
	for i := range putEach {
		if err := os.Remove(filepath.Join(b.files, fmt.Sprintf("dd-%d", i))); err != nil {
			return 0, err
		}
	}
	return float64(putSize*putEach) / wall.Seconds() / 1e6, nil
}

func dd(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "dd", "if="+from, "of="+to, "bs=1M", "conv=fsync", "status=none").CombinedOutput()
	if err != nil {
		return fmt.Errorf("dd: %w: %s", err, out)
	}
	return nil
}

// md5Round returns MB/s, and seconds of CPU for a GB.
func md5Round(body []byte) (rate, cpu float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	h := md5.New()
	for range putEach {
		h.Write(body)
	}
	took := time.Since(begin)
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		return 0, 0, err
	}
	used := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	return float64(putSize*putEach) / took.Seconds() / 1e6, used.Seconds() / (putSize * putEach) * 1e9, nil
}
