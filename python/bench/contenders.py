"""The ways to read samples that peers.py compares, and the data that all of them read.

One class for each library, with the same four acts: write the samples in its own format, read some by their numbers,
go through all of them, and go through them with two workers. A library that is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import penstock
from turns import Contender

WORKERS = 2
CROP = 224
SHUFFLE = 5000  # samples in WebDataset's buffer

Batch = list[Any]


class Reader(NamedTuple):
    name: str
    read: Callable[[list[int]], object]


class Data:
    """Samples as plain files, and a folder beside them for each library that has a format of its own."""

    def __init__(self, folder: Path, make: Callable[[], Iterable[bytes]], batch: int, field: str) -> None:
        self.folder, self.batch, self.field = folder, batch, field
        self.files: list[str] = []
        (folder / "files").mkdir(parents=True)
        self.bytes = 0
        for i, value in enumerate(make()):
            path = folder / "files" / f"{i:06}.{field}"
            path.write_bytes(value)
            self.files.append(str(path))
            self.bytes += len(value)
        self.count = len(self.files)

    def __iter__(self) -> Iterator[bytes]:
        for path in self.files:
            yield Path(path).read_bytes()

    def dataset(self) -> penstock.Dataset:
        """The samples as a dataset of ours. WebDataset reads the same tars."""
        path = self.folder / "penstock"
        if not path.exists():
            with penstock.create("peers", to=path) as w:
                for i, value in enumerate(self):
                    w.add(f"{i:06}", {self.field: value})
        return penstock.open(path)

    def tars(self) -> list[str]:
        self.dataset()
        return sorted(map(str, (self.folder / "penstock").rglob("*.tar")))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def stacked(values: list[Any]) -> Any:
    """Bytes of the same size as one tensor, written once: torch's collate puts it where the consumer finds it."""
    import torch

    return torch.utils.data.default_collate([torch.frombuffer(value, dtype=torch.uint8) for value in values])


def cropped(data: Any) -> Any:
    """Decode, and cut a random square out. The same for all."""
    import numpy
    import torch
    from PIL import Image

    with Image.open(io.BytesIO(data)) as file:
        image = file.convert("RGB")
    x, y = random.randrange(image.width - CROP + 1), random.randrange(image.height - CROP + 1)
    return torch.from_numpy(numpy.array(image.crop((x, y, x + CROP, y + CROP)))).permute(2, 0, 1)


def tensors(values: list[Any]) -> Any:
    """Of a batch of bytes a tensor; of what was decoded one as well."""
    import torch

    return stacked(values) if not isinstance(values[0], torch.Tensor) else torch.utils.data.default_collate(values)


class Files:
    """One file for each sample."""

    name, module = "plain files", "torch"

    def __init__(self, data: Data, decode: Callable[[Any], Any] | None = None) -> None:
        self.files, self.batch, self.decode = data.files, data.batch, decode

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        with open(self.files[i], "rb", buffering=0) as file:
            data = file.read()
        return data if self.decode is None else self.decode(data)

    def loader(self, workers: int = WORKERS) -> Iterable[Any]:
        return torch_loader(self, self.batch, shuffle=True, collate_fn=tensors, num_workers=workers)


def torch_loader(dataset: Any, batch: int | None, *, num_workers: int, **options: Any) -> Iterable[Any]:
    import torch

    return torch.utils.data.DataLoader(
        dataset, batch_size=batch, num_workers=num_workers, persistent_workers=num_workers > 0, **options
    )


class WebDataset:
    """Tars from front to back. It has no way to a sample by its number."""

    name, module = "WebDataset", "webdataset"

    def __init__(self, data: Data, decode: Callable[[Any], Any] | None = None) -> None:
        self.tars, self.field, self.batch, self.decode = data.tars(), data.field, data.batch, decode

    def pipeline(self, shuffle: bool) -> Any:
        import webdataset

        pipe = webdataset.WebDataset(self.tars, shardshuffle=len(self.tars) if shuffle else False, empty_check=False)
        if shuffle:
            pipe = pipe.shuffle(SHUFFLE)
        pipe = pipe.map(self._value)
        return pipe.batched(self.batch, collation_fn=tensors if self.decode else None)

    def _value(self, sample: dict[str, Any]) -> Any:
        return self.decode(sample[self.field]) if self.decode else sample[self.field]

    def batches(self, shuffle: bool) -> Iterable[Batch]:
        return self.pipeline(shuffle)  # type: ignore[no-any-return]

    def loader(self) -> Iterable[Any]:
        pipe = self.pipeline(True)
        return torch_loader(pipe if self.decode else pipe.map(stacked), None, num_workers=WORKERS)


class Mosaic:
    """MosaicML Streaming: shards of its own, here on the local disk already."""

    name, module = "MosaicML Streaming", "streaming"

    def __init__(self, data: Data, decode: Callable[[Any], Any] | None = None) -> None:
        from streaming import MDSWriter

        self.folder, self.batch, self.decode, self.made = str(data.folder / "mds"), data.batch, decode, 0
        self.count = data.count
        if not os.path.exists(self.folder):
            with MDSWriter(out=self.folder, columns={"x": "bytes"}, compression=None, hashes=[]) as out:
                for value in data:
                    out.write({"x": value})

    def open(self, shuffle: bool) -> Any:
        from streaming import StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        decode = self.decode

        class Ours(StreamingDataset):  # type: ignore[misc]
            def __getitem__(self, at: Any) -> Any:
                value = super().__getitem__(at)["x"]
                return value if decode is None else decode(value)

        return Ours(local=self.folder, shuffle=shuffle, batch_size=self.batch, num_canonical_nodes=1)

    def reader(self) -> Callable[[list[int]], object]:
        dataset = self.open(False)
        return lambda numbers: [dataset[i] for i in numbers]

    def batches(self, shuffle: bool) -> Iterable[Batch]:
        return Batched(self.open(shuffle), self.batch)

    def loader(self) -> Iterable[Any]:
        return torch_loader(self.open(True), self.batch, collate_fn=tensors, num_workers=WORKERS)


class LitData:
    """Chunks of its own, on the local disk already."""

    name, module = "LitData", "litdata"

    def __init__(self, data: Data, decode: Callable[[Any], Any] | None = None) -> None:
        self.folder, self.batch, self.decode = str(data.folder / "litdata"), data.batch, decode
        if not os.path.exists(self.folder):
            import litdata

            litdata.optimize(
                fn=_whole, inputs=data.files, output_dir=self.folder, chunk_bytes="64MB", num_workers=1, verbose=False
            )
            multiprocessing.set_start_method("fork", force=True)  # it leaves another one behind, for everybody

    def open(self, shuffle: bool) -> Any:
        import litdata

        return litdata.StreamingDataset(self.folder, shuffle=shuffle, transform=self.decode)

    def reader(self) -> Callable[[list[int]], object]:
        dataset = self.open(False)
        return lambda numbers: [dataset[i] for i in numbers]

    def batches(self, shuffle: bool) -> Iterable[Batch]:
        return Batched(self.open(shuffle), self.batch)

    def loader(self) -> Iterable[Any]:
        import litdata

        return litdata.StreamingDataLoader(  # type: ignore[no-any-return]
            self.open(True), batch_size=self.batch, num_workers=WORKERS, collate_fn=tensors, persistent_workers=True
        )


def _whole(path: str) -> bytes:
    return Path(path).read_bytes()


class Batched:
    """Something that gives samples, as batches, each time it is gone through."""

    def __init__(self, samples: Iterable[Any], batch: int) -> None:
        self.samples, self.batch = samples, batch

    def __iter__(self) -> Iterator[Batch]:
        some: Batch = []
        for sample in self.samples:
            some.append(sample)
            if len(some) == self.batch:
                yield some
                some = []
        if some:
            yield some


PEERS = (WebDataset, Mosaic, LitData)


def missing() -> list[str]:
    """What is not installed."""
    needed = {"redis-py": "redis", **{peer.name: peer.module for peer in (Files, *PEERS)}}
    absent = [name for name, module in needed.items() if importlib.util.find_spec(module) is None]
    return absent + ([] if shutil.which("redis-server") else ["redis-server"])


def _there() -> list[Any]:
    return [peer for peer in PEERS if importlib.util.find_spec(peer.module) is not None]


def requests(data: Data, client: penstock.Client, redis: int) -> list[Reader]:
    """Ways to read some samples by their numbers."""
    keys = [f"{data.folder.name}/{i:06}" for i in range(data.count)]
    for at in range(0, data.count, 512):
        client.put_batch("peers", {keys[i]: Path(data.files[i]).read_bytes() for i in range(at, min(at + 512, data.count))})
    name = f"peers-{data.folder.name}"
    with penstock.create(name, bucket="peers", client=client) as w:
        for i, value in enumerate(data):
            w.add(f"{i:06}", {data.field: value})
    pool = ThreadPoolExecutor(8)
    plain = Files(data)
    found = [
        Reader("penstock, client.batch over TCP", lambda some: client.batch("peers", [keys[i] for i in some])),
        Reader("penstock, ds.get over TCP", penstock.open(name, client=client).get),
        Reader("penstock, ds.get from a directory", data.dataset().get),
        Reader("plain files, 8 threads", lambda some: list(pool.map(plain.__getitem__, some))),
        Reader("plain files, one after the other", lambda some: [plain[i] for i in some]),
    ]
    if redis and importlib.util.find_spec("redis"):
        found += _redis(data, keys, redis)
    found += [Reader(f"{peer.name}, dataset[i]", peer(data).reader()) for peer in _there() if hasattr(peer, "reader")]
    return found


def _redis(data: Data, keys: list[str], port: int) -> list[Reader]:
    """redis-py with its own parser, which is what one gets, and with that of hiredis, in C, which its documentation recommends."""
    from redis import Connection, ConnectionPool, Redis
    from redis._parsers import _RESP2Parser

    ways = {"redis-py MGET over TCP": {"parser_class": _RESP2Parser, "protocol": 2}}
    if importlib.util.find_spec("hiredis"):
        ways["redis-py MGET over TCP, hiredis"] = {}
    found = []
    for name, options in ways.items():
        client = Redis(connection_pool=ConnectionPool(Connection, host="127.0.0.1", port=port, **options))
        for key, path in zip(keys, data.files):
            client.set(key, Path(path).read_bytes())
        found.append(Reader(name, lambda some, client=client: client.mget([keys[i] for i in some])))
    return found


def passes(data: Data, *, shuffle: bool) -> list[Contender]:
    """Ways to go through all samples, as batches of bytes, in this process."""
    from penstock.loader import Loader

    ours = Loader(data.dataset(), batch_size=data.batch, decode=None, collate_fn=_Values(data.field), shuffle=shuffle)
    found = [Contender("penstock, a directory", _counted(map_again(b"".join, ours), data, data.batch))]
    for peer in _there():
        batches = map_again(b"".join, peer(data).batches(shuffle))
        found.append(Contender(peer.name, _counted(batches, data, data.batch)))
    return found


class map_again:
    """map, each time it is gone through. Here the consumer puts the bytes together: some give views that nobody has read."""

    def __init__(self, function: Callable[[Any], Any], values: Iterable[Any]) -> None:
        self.function, self.values = function, values

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.values)


def loaders(data: Data, stack: ExitStack) -> list[Contender]:
    """Ways to go through all samples as batches of tensors, with two workers."""
    from penstock.torch import MapDataset, loader

    ds = data.dataset()
    found = []
    for kind in ("process", "thread"):
        ours = loader(ds, batch_size=data.batch, decode="raw", num_workers=WORKERS, workers=kind)
        stack.callback(ours.close)
        found.append(Contender(f"penstock loader, 2 {kind}es".replace("ades", "ads"), _counted(ours, data)))
    options = {"shuffle": True, "collate_fn": _Stacked(data.field), "num_workers": WORKERS}
    mapped = torch_loader(MapDataset(ds, decode="raw", fields=[data.field]), data.batch, **options)
    found.append(Contender("torch DataLoader, penstock MapDataset", _counted(mapped, data)))
    found.append(Contender("torch DataLoader, plain files", _counted(Files(data).loader(), data)))
    found += [Contender(peer.name, _counted(peer(data).loader(), data)) for peer in _there()]
    return found


def images(data: Data, stack: ExitStack) -> list[Contender]:
    """Decoding alone, in as many processes as there are workers, and everybody's way with it."""
    from penstock.torch import loader

    ours = loader(
        data.dataset(), batch_size=data.batch, decode=None, transform=_Crop(data.field), num_workers=WORKERS
    )
    stack.callback(ours.close)
    found = [
        Contender("decoding alone, 2 processes", Alone(data, stack).run),
        Contender("penstock loader", _counted(ours, data)),
        Contender("torch DataLoader, plain files", _counted(Files(data, cropped).loader(), data)),
    ]
    return found + [Contender(peer.name, _counted(peer(data, cropped).loader(), data)) for peer in _there()]


class _Crop:
    def __init__(self, field: str) -> None:
        self.field = field

    def __call__(self, sample: dict[str, Any]) -> Any:
        return cropped(sample[self.field])


class Alone:
    """Decodes what is in memory, in processes that give nothing back: no loader can be faster."""

    def __init__(self, data: Data, stack: ExitStack) -> None:
        self.parts = [list(data)[i::WORKERS] for i in range(WORKERS)]
        self.pipes = []
        context = multiprocessing.get_context("fork")
        for part in self.parts:
            here, there = context.Pipe()
            process = context.Process(target=_decode_alone, args=(there, part), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            stack.callback(process.join)
            stack.callback(here.send, False)

    def run(self) -> Iterator[int]:
        for pipe in self.pipes:
            pipe.send(True)
        for pipe in self.pipes:
            yield pipe.recv()


def _decode_alone(pipe: Any, part: list[bytes]) -> None:
    import torch

    torch.set_num_threads(1)
    while pipe.recv():
        for value in part:
            cropped(value)
        pipe.send(len(part))


def pictures() -> Iterator[bytes]:
    """JPEGs as photographs are: about 100 KiB, 500 by 375."""
    import numpy
    from PIL import Image

    chance = numpy.random.default_rng(1)
    for _ in range(2048):
        coarse = Image.fromarray(chance.integers(0, 256, (24, 32, 3), dtype=numpy.uint8)).resize((500, 375), 3)
        noise = chance.normal(0, 14, (375, 500, 3))
        out = io.BytesIO()
        Image.fromarray((numpy.asarray(coarse) + noise).clip(0, 255).astype(numpy.uint8)).save(out, "JPEG", quality=88)
        yield out.getvalue()


class _Values:
    """Of a batch of samples one field, as the others give it."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __call__(self, samples: list[dict[str, Any]]) -> Batch:
        return [sample[self.field] for sample in samples]


class _Stacked(_Values):
    def __call__(self, samples: list[dict[str, Any]]) -> Any:
        return stacked(super().__call__(samples))


def _counted(batches: Iterable[Any], data: Data, size: int | None = None) -> Callable[[], Iterator[int]]:
    def run() -> Iterator[int]:
        count = 0
        for batch in batches:
            n = size or _length(batch)
            count += n
            yield n
        assert count > data.count - 2 * data.batch, f"{count} samples of {data.count}"

    return run


def _length(batch: Any) -> int:
    if isinstance(batch, dict):
        batch = next(iter(batch.values()))
    return len(batch.offsets) - 1 if hasattr(batch, "offsets") else len(batch)
