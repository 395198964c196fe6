"""Batches from Python: samples a second and processor time a sample, side by side with others.

    penstock serve --data /tmp/bench &
    python python/bench/batch.py --endpoint http://127.0.0.1:7400 [--redis 127.0.0.1:6379] [--files /tmp/files]

Starts nothing itself. It stores its data in a bucket of its own and removes it again. All
contenders read the same random samples and check the CRC-32 of every byte: Penstock's
client because it always does, the others because the comparison would be of other work
if they did not (--no-check shows them without). They take turns, a second each, so that
noise of the machine hits all of them; what is printed is the median of the turns.

Processor time is that of this process and, where it can be asked for, of the server.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen
from zlib import crc32

import penstock
from penstock.memory import Memory
from penstock.wire import REFS_TYPE, BatchReader, encode_refs

WORKLOADS = [(256, 4 << 10, 8192), (64, 128 << 10, 1024)]  # samples a batch, bytes a sample, samples in all


class Contender:
    """Reads batches of keys. threads read at once, each for itself."""

    threads = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, keys: list[str]) -> None:
        raise NotImplementedError

    def server_seconds(self) -> float | None:
        """Processor time of the server so far."""
        return None


class Penstock(Contender):
    def __init__(self, client: penstock.Client, bucket: str, threads: int = 1) -> None:
        super().__init__("penstock" + (f", {threads} threads" if threads > 1 else ""))
        self.client, self.bucket, self.threads = client, bucket, threads

    def read(self, keys: list[str]) -> None:
        self.client.batch(self.bucket, keys)

    def server_seconds(self) -> float | None:
        with urlopen(f"{self.client.endpoint}/metrics", timeout=10) as answer:
            for line in answer:
                if line.startswith(b"process_cpu_seconds_total "):
                    return float(line.split()[1])
        return None


class HTTPClient(Penstock):
    """The same frames through the standard library's HTTP."""

    def __init__(self, client: penstock.Client, bucket: str) -> None:
        super().__init__(client, bucket)
        self.name = "penstock, http.client"
        self.memory = Memory()
        self.connection = http.client.HTTPConnection(client.endpoint.removeprefix("http://"))

    def read(self, keys: list[str]) -> None:
        self.connection.request("POST", "/v1/batch", encode_refs(self.bucket, keys), {"Content-Type": REFS_TYPE})
        answer = HTTPAnswer(self.connection.getresponse())
        reader = BatchReader(answer, len(keys), 1 << 30, memory=self.memory)
        [item for segment in reader.segments() for item in segment]


class HTTPAnswer:
    """What a BatchReader reads from."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.take, self._readinto = answer.read, answer.readinto

    def readinto(self, view: memoryview) -> int:
        at = 0
        while at < len(view) and (n := self._readinto(view[at:])):
            at += n
        return at


class Redis(Contender):
    def __init__(self, connection: object, data: dict[str, int], prefix: str) -> None:
        super().__init__("redis-py MGET")
        self.redis, self.data, self.prefix = connection, data, prefix

    def read(self, keys: list[str]) -> None:
        values = self.redis.mget([self.prefix + key for key in keys])
        verify(values, keys, self.data)

    def server_seconds(self) -> float | None:
        cpu = self.redis.info("cpu")
        return float(cpu["used_cpu_sys"] + cpu["used_cpu_user"])


class Files(Contender):
    def __init__(self, directory: Path, data: dict[str, int], pool: ThreadPoolExecutor) -> None:
        super().__init__("files, 8 threads")
        self.directory, self.data, self.pool = directory, data, pool

    def read(self, keys: list[str]) -> None:
        verify(list(self.pool.map(self._one, keys)), keys, self.data)

    def _one(self, key: str) -> bytes:
        return (self.directory / key).read_bytes()


check = True


def verify(values: list[bytes], keys: list[str], data: dict[str, int]) -> None:
    if check:
        for key, value in zip(keys, values):
            assert crc32(value) == data[key], key


def turn(contender: Contender, keys: list[str], batch: int, seconds: float) -> tuple[float, float, float | None]:
    """Samples a second, and processor time a sample here and in the server."""

    def loop(_: int) -> int:
        count = 0
        while time.perf_counter() < end:
            contender.read(random.choices(keys, k=batch))
            count += batch
        return count

    before = contender.server_seconds()
    cpu, begin = time.process_time(), time.perf_counter()
    end = begin + seconds
    if contender.threads == 1:
        count = loop(0)
    else:
        with ThreadPoolExecutor(contender.threads) as pool:
            count = sum(pool.map(loop, range(contender.threads)))
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    server = contender.server_seconds()
    return count / took, cpu / count, None if server is None or before is None else (server - before) / count


def main() -> None:
    global check
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", default=None, help="of a running node")
    parser.add_argument("--redis", metavar="HOST:PORT", help="of a running Redis, to compare with; needs redis-py")
    parser.add_argument("--files", metavar="DIR", type=Path, help="directory to put plain files into, to compare with")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--no-check", action="store_true", help="let the others read without checking")
    options = parser.parse_args()
    check = not options.no_check

    client = penstock.Client(options.endpoint)
    bucket = f"bench-python-{os.getpid()}"
    undo: list[Callable[[], object]] = []
    try:
        client.create_bucket(bucket)
        undo.append(lambda: remove(client, bucket))
        print(f"{'samples':>20}  {'':22} {'samples/s':>10} {'GB/s':>6} {'us client':>10} {'us server':>10}")
        for batch, size, count in WORKLOADS:
            data = fill(client, bucket, size, count)
            contenders: list[Contender] = [
                Penstock(client, bucket),
                Penstock(client, bucket, 2),
                HTTPClient(client, bucket),
            ]
            if options.redis:
                contenders.append(redis(options.redis, client, bucket, data, undo))
            if options.files:
                contenders.append(files(options.files / bucket, client, bucket, data, undo))
            compare(contenders, list(data), batch, size, options.turns, options.seconds)
    finally:
        for act in reversed(undo):
            act()


def compare(contenders: list[Contender], keys: list[str], batch: int, size: int, turns: int, seconds: float) -> None:
    results: dict[str, list[tuple[float, float, float | None]]] = {contender.name: [] for contender in contenders}
    for number in range(turns + 1):
        for contender in contenders:
            result = turn(contender, keys, batch, seconds if number else 0.2)
            if number:  # the first turn is for warming up
                results[contender.name].append(result)
    for name, all_turns in results.items():
        rate, cpu = (statistics.median(values) for values in list(zip(*all_turns))[:2])
        servers = [server for _, _, server in all_turns if server is not None]
        server = f"{statistics.median(servers) * 1e6:10.1f}" if servers else f"{'':10}"
        print(
            f"{f'{batch} x {size >> 10} KiB':>20}  {name:22} {rate:10,.0f} {rate * size / 1e9:6.2f} {cpu * 1e6:10.1f} {server}"
        )
        sys.stdout.flush()


def fill(client: penstock.Client, bucket: str, size: int, count: int) -> dict[str, int]:
    """Store samples, and return the CRC-32 of each."""
    data = {}
    for begin in range(0, count, 512):
        some = {f"{size}/{i:06}": os.urandom(size) for i in range(begin, begin + 512)}
        client.put_batch(bucket, some)
        data.update({key: crc32(value) for key, value in some.items()})
    return data


def redis(
    address: str, client: penstock.Client, bucket: str, data: dict[str, int], undo: list[Callable[[], object]]
) -> Redis:
    import redis as library

    host, _, port = address.rpartition(":")
    connection = library.Redis(host, int(port))
    for key in data:
        connection.set(f"{bucket}/{key}", client.get(f"{bucket}/{key}"))
    undo.append(lambda: connection.delete(*(f"{bucket}/{key}" for key in data)))
    return Redis(connection, data, f"{bucket}/")


def files(
    directory: Path, client: penstock.Client, bucket: str, data: dict[str, int], undo: list[Callable[[], object]]
) -> Files:
    for key in data:
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get(f"{bucket}/{key}"))
    pool = ThreadPoolExecutor(8)
    undo.append(lambda: shutil.rmtree(directory, ignore_errors=True))
    undo.append(pool.shutdown)
    return Files(directory, data, pool)


def remove(client: penstock.Client, bucket: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: client.delete(entry.name), client.list(bucket)))
    client.delete_bucket(bucket)


if __name__ == "__main__":
    main()
