# make build   one static binary at bin/penstock
# make demo    the main job end to end, in a temporary directory, on a fresh machine
# make test    everything CI runs: lint, unit tests with the race detector, real-binary tests
# make lint    formatting, vet, staticcheck
# make bench   the tables of docs/guide/performance.md
# make frameworks   real torchdata, Lightning, Accelerate and transformers, killed and resumed (a large download)
# make chaos   the long versions of the failure tests (hours; needs root)

SHELL := /bin/bash
.DEFAULT_GOAL := build
export CGO_ENABLED := 0
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: build demo test unit chaos frameworks lint bench fuzz clean

build:
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/penstock ./cmd/penstock

demo: build
	./test/demo.sh

test:
	./test/run.sh

lint:
	./test/lint.sh

unit:
	CGO_ENABLED=1 go test -race -timeout 20m ./...

bench: build
	./bench/run.sh

fuzz:
	./test/fuzz.sh

chaos: build
	./test/chaos.sh

frameworks:
	./test/frameworks.sh

clean:
	rm -rf bin build
