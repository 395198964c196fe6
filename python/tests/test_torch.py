"""penstock.torch, with real processes that talk by gloo, are killed, and go on elsewhere."""

from __future__ import annotations

import datetime
import gc
import io
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import Node
from datasets import key, sample, write

import penstock

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what others' packages say when they are imported
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import train_ranks

    from penstock.torch import BatchSampler, MapDataset, collate, loader, ranks, seeded

COUNT = 300


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pets"), COUNT)


@pytest.fixture
def ds(home: Path) -> penstock.Dataset:
    return penstock.open(home)


# Ranks that are killed.


class Run:
    """A training run on several processes."""

    def __init__(
        self,
        home: Path,
        out: Path,
        size: int,
        steps: int,
        *,
        workers: int = 0,
        kind: str = "process",
        pause: float = 0,
        tensor: int = 1,
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script = Path(__file__).with_name("train_ranks.py")
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", script, home, out, *map(str, (steps, workers, kind, pause, tensor))],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            for rank in range(size)
        ]

    def kill_after(self, step: int) -> None:
        out = self.ranks[0].stdout
        assert out is not None
        for line in out:
            if line.strip() == str(step):
                break
        else:
            raise AssertionError(self.ranks[0].communicate(timeout=10)[1])
        for process in self.ranks:
            process.send_signal(signal.SIGKILL)
        for process in self.ranks:
            process.communicate(timeout=60)

    def finish(self) -> str:
        ends = [process.communicate(timeout=120) for process in self.ranks]
        assert all(process.returncode == 0 for process in self.ranks), [errors for _, errors in ends]
        return ends[0][0].splitlines()[-1]


def global_batches(out: Path) -> dict[int, dict[str, Any]]:
    """What all ranks of all runs got, put together; whatever was delivered twice must be the same."""
    runs: dict[tuple[int, int], dict[int, list[Any]]] = {}
    for path in sorted(out.glob("*.pt")):
        step, rank, _, size, _ = path.stem.split("-")
        runs.setdefault((int(step), int(size)), {}).setdefault(int(rank), []).append(torch.load(path))
    found: dict[int, dict[str, Any]] = {}
    for (step, size), shares in runs.items():
        for batches in shares.values():
            assert all(same(batch, batches[0]) for batch in batches)
        if len(shares) < size:
            continue  # some rank was killed before it got its share; another run made up for it
        batch = {
            name: torch.stack([shares[rank][0][name] for rank in range(size)], 1).flatten(0, 1) for name in shares[0][0]
        }
        if step in found:
            assert same(found[step], batch)
        found[step] = batch
    return found


def same(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("workers", "kind"), [(0, "process"), (2, "process"), (2, "thread")])
def test_killed_and_resumed_at_other_sizes(home: Path, tmp_path: Path, workers: int, kind: str) -> None:
    steps = 30  # an epoch has 12
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    straight.mkdir()
    broken.mkdir()
    end = Run(home, straight, 1, steps).finish()
    done = 0
    for size in (2, 3, 1):
        done += random.randrange(4, 9)
        Run(home, broken, size, steps, workers=workers, kind=kind, pause=0.01).kill_after(done)
    assert Run(home, broken, 2, steps, workers=workers, kind=kind).finish() == end
    expected, found = global_batches(straight), global_batches(broken)
    assert sorted(expected) == list(range(steps)) and sorted(found) == list(range(steps))
    for step in range(steps):
        assert same(found[step], expected[step]), step
    assert len({tuple(batch["index"].tolist()) for batch in expected.values()}) == steps


def test_killed_and_resumed_in_other_meshes(home: Path, tmp_path: Path) -> None:
    steps = 20
    ds = penstock.open(home)
    expected = loader(ds, global_batch=24, seed=11, shuffle="window:60KiB", transform=train_ranks.augment)
    Run(home, tmp_path, 4, steps, pause=0.01, tensor=2).kill_after(8)
    Run(home, tmp_path, 2, steps, tensor=2).finish()
    found = global_batches(tmp_path)  # which compares the ranks that hold parts of the same tensors
    assert sorted(found) == list(range(steps))
    for step in range(steps):
        assert same(found[step], expected.batch_at(*divmod(step, len(expected)))), step
    names = [path.name for path in tmp_path.glob("*.pt")]
    assert sum(name.startswith("0003-") for name in names) == 4, "not all ranks were given the batch"


# Batches of tensors.


def test_tensors(ds: penstock.Dataset) -> None:
    for workers in ({}, {"num_workers": 2}, {"num_workers": 2, "workers": "thread"}):
        with loader(ds, batch_size=50, fields=["bin", "cls", "n", "x"], **workers) as dl:
            batch = next(iter(dl))
        assert batch["cls"].dtype == torch.int64 and batch["x"].dtype == torch.float64 and len(batch["bin"]) == 50
        assert batch["n"].tolist() == batch["__index__"].tolist() and batch["__key__"][3] == key(int(batch["n"][3]))
        assert batch["bin"][0] == sample(int(batch["n"][0]))["bin"]
        batch["cls"] += 1  # is the caller's
    raw = loader(ds, batch_size=50, fields=["bin"], decode="raw").batch_at(0, 0)
    data, offsets = raw["bin"]
    i = int(raw["__index__"][7])
    assert bytes(data[offsets[7] : offsets[8]].tolist()) == sample(i)["bin"] and len(offsets) == 51


def large(sample: Any) -> Any:
    return {"image": torch.full((3, 64, 64), sample["n"] % 251, dtype=torch.uint8), "half": torch.full((9,), 0.5, dtype=torch.bfloat16),
            "odd": torch.arange(12).reshape(3, 4).T, "none": torch.empty(0), "flag": torch.tensor(True)}  # fmt: skip


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensors_of_workers(ds: penstock.Dataset, method: str) -> None:
    expected = loader(ds, batch_size=64, transform=large)
    with loader(ds, batch_size=64, transform=large, num_workers=2, multiprocessing_context=method) as dl:
        kept = []
        for step, batch in enumerate(dl):
            assert same(batch, expected.batch_at(0, step))
            batch["image"] += 1
            kept.append(batch["image"])
        assert all(
            int(image[0, 0, 0, 0]) == (i % 251) + 1
            for image, i in zip(kept, (expected.samples_at(0, s)[0] for s in range(4)))
        )
    del batch, kept
    gc.collect()


def test_images(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = pytest.importorskip("PIL.Image")

    def png(i: int, mode: str, size: tuple[int, int] = (6, 4)) -> bytes:
        out = io.BytesIO()
        image.new(mode, size, i if mode in ("L", "P") else (i, 2, 3)).save(out, "png")
        return out.getvalue()

    with penstock.create("x", to=tmp_path / "a") as w:
        for i in range(8):
            w.add(f"{i}", {"png": png(i, "L" if i % 2 else "RGB"), "cls": i})
    batch = loader(penstock.open(tmp_path / "a"), batch_size=8, shuffle="none").batch_at(0, 0)
    assert batch["png"].shape == (8, 3, 4, 6) and batch["png"].dtype == torch.uint8
    assert batch["png"][:, 0, 0, 0].tolist() == list(range(8)) and batch["png"][3, 2, 1, 1] == 3
    with penstock.create("x", to=tmp_path / "b") as w:
        w.add("0", {"png": png(1, "L")})
        w.add("1", {"png": png(1, "L", (7, 4))})
        w.add("2", {"png": b"not an image"})
    ds = penstock.open(tmp_path / "b")
    with pytest.raises(penstock.Invalid, match="png has different shapes"):
        loader(ds, batch_size=2, shuffle="none").batch_at(0, 0)
    with pytest.raises(penstock.SampleError, match="field png cannot be decoded") as caught:
        loader(ds, batch_size=1, shuffle="none").batch_at(0, 2)
    assert caught.value.index == 2 and caught.value.kind == "Corrupt"
    dl = loader(ds, batch_size=1, shuffle="none", on_error="substitute")
    assert int(dl.batch_at(0, 2)["__index__"][0]) in (0, 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_images_lie_as_decoders_leave_them(tmp_path: Path, workers: int) -> None:
    image = pytest.importorskip("PIL.Image")
    with penstock.create("pictures", to=tmp_path) as writer:
        for number in range(4):
            data = io.BytesIO()
            image.new("RGB", (64, 48), (number, 2 * number, 3 * number)).save(data, "PNG")
            writer.add(f"{number}", {"png": data.getvalue()})
    dl = loader(penstock.open(tmp_path), batch_size=4, shuffle=False, num_workers=workers)
    batch = next(iter(dl))["png"]
    dl.close()
    assert batch.shape == (4, 3, 48, 64)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    for number, picture in enumerate(batch):
        assert (picture == torch.tensor([number, 2 * number, 3 * number]).reshape(3, 1, 1)).all()


def test_collate() -> None:
    assert collate([1, 2]).tolist() == [1, 2] and collate([(1, "a"), (2, "b")])[1] == ["a", "b"]
    assert collate([{"a": {"b": 1}}, {"a": {"b": 2}}])["a"]["b"].tolist() == [1, 2]
    assert collate([{"boxes": [1, 2]}, {"boxes": [3]}])["boxes"] == [[1, 2], [3]]
    assert collate([None, None]) == [None, None]


def torch_random(sample: Any) -> Any:
    return torch.rand(3), random.random()


def test_seeded(ds: penstock.Dataset) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = loader(ds, batch_size=10, transform=seeded(torch_random), seed=1)
    with loader(ds, batch_size=10, transform=seeded(torch_random), seed=1, num_workers=2) as two:
        for step, batch in enumerate(two):
            for a, b in zip(batch, one.batch_at(0, step)):
                assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before)


# Ranks.


class Mesh:
    """As torch's DeviceMesh, which older versions do not have."""

    def __init__(self, names: tuple[str, ...] | None, shape: tuple[int, ...], at: tuple[int, ...]) -> None:
        self.mesh_dim_names, self._shape, self._at, self.ndim = names, shape, at, len(shape)

    def size(self, i: int) -> int:
        return self._shape[i]

    def get_local_rank(self, i: int) -> int:
        return self._at[i]


def test_meshes(ds: penstock.Dataset) -> None:
    assert ranks(mesh=Mesh(("dp", "tp"), (4, 2), (3, 1))) == (3, 4)
    assert ranks(mesh=Mesh(("pp", "dp_replicate", "dp_shard", "tp"), (2, 2, 3, 2), (1, 1, 2, 0))) == (5, 6)
    assert ranks(mesh=Mesh(None, (4,), (2,))) == (2, 4)
    for wrong in (Mesh(None, (2, 2), (0, 0)), Mesh(("tp",), (2,), (0,))):
        with pytest.raises(penstock.Invalid):
            ranks(mesh=wrong)
    with pytest.raises(penstock.Invalid):
        ranks(0, 1, mesh=Mesh(None, (4,), (2,)))
    tensor_parallel = [
        loader(ds, batch_size=8, fields=["n"], mesh=Mesh(("dp", "tp"), (2, 2), (1, tp))) for tp in range(2)
    ]
    assert torch.equal(tensor_parallel[0].batch_at(0, 3)["n"], tensor_parallel[1].batch_at(0, 3)["n"])


# torch's own DataLoader.


class Counting:
    """Counts how often a place is asked."""

    def __init__(self, place: Any) -> None:
        self.place, self.calls = place, 0

    def read(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.place.read(*arguments)


def chancy(sample: Any, rng: Any) -> Any:
    return sample["n"], rng.random()


@pytest.mark.parametrize("workers", [0, 2])
def test_map_dataset(home: Path, workers: int) -> None:
    ds = penstock.open(home)
    ds.place = Counting(ds.place)  # type: ignore[assignment]
    samples = MapDataset(ds, fields=["bin", "n"])
    assert len(samples) == COUNT and samples[5]["n"] == 5
    before = ds.place.calls  # type: ignore[attr-defined]
    assert [s["n"] for s in samples.__getitems__([9, 2, 4])] == [9, 2, 4]
    assert ds.place.calls == before + 1  # type: ignore[attr-defined]
    ds = penstock.open(home)
    sampler = BatchSampler(ds, batch_size=20, seed=3)
    own = loader(ds, batch_size=20, seed=3, transform=chancy)
    for options in ({"batch_sampler": sampler}, {"batch_size": None, "sampler": sampler}):
        sampler.set_epoch(1)
        sampler.set_epoch(0)
        batched = "batch_sampler" not in options
        # torch before version 2 asks for samples one by one, and then nobody knows the epoch but us.
        dataset = MapDataset(ds, transform=chancy, seed=3)
        dl = torch.utils.data.DataLoader(dataset, num_workers=workers, **options)
        for epoch in range(2):
            dataset.set_epoch(epoch)
            for step, batch in enumerate(dl):
                expected = own.batch_at(epoch, step)
                assert torch.equal(batch[0], expected[0])
                if batched or epoch == 0 or workers == 0:
                    assert torch.equal(batch[1], expected[1])
            assert step == 14


def test_sampler_state(ds: penstock.Dataset) -> None:
    sampler = BatchSampler(ds, batch_size=20, seed=3)
    expected = list(sampler)
    assert sampler.state_dict() == {**sampler.state_dict(), "epoch": 1, "position": 0} and len(expected) == 15
    dl = torch.utils.data.DataLoader(MapDataset(ds, fields=["n"]), batch_size=None, sampler=sampler, num_workers=2)
    seen = 0
    sampler.set_epoch(0)
    for batch in dl:
        seen += 1
        if seen == 4:
            state = sampler.state_dict(seen)  # the sampler itself is further
            break
    other = BatchSampler(ds, batch_size=20, seed=3)
    other.load_state_dict(state)
    assert len(other) == 11 and list(other) == expected[4:]
    alike = loader(ds, batch_size=20, seed=3, fields=["n"])
    alike.load_state_dict(state)  # they have the same state
    assert next(iter(alike))["n"].tolist() == expected[4]


IN_TORCH = """
import torch, penstock
from penstock.torch import loader
def transform(sample, rng):
    x = torch.rand(300, 300, generator=rng.torch)
    return (x @ x).sum()
dl = loader(penstock.open({home!r}), batch_size=16, decode=None, transform=transform, num_workers=3, workers="thread")
next(iter(dl))
"""


def test_the_end_of_a_program_with_threads(home: Path) -> None:
    for _ in range(3):  # daemon threads that are inside of torch at exit would abort the process
        command = [sys.executable, "-W", "ignore", "-c", IN_TORCH.format(home=str(home))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_loop_that_is_left_at_the_last_batch(ds: penstock.Dataset) -> None:
    sampler = BatchSampler(ds, batch_size=20, seed=3)
    dl = torch.utils.data.DataLoader(MapDataset(ds, fields=["n"]), batch_size=None, sampler=sampler)
    for epoch in range(3):
        assert len(dl) == 15
        seen = [batch["n"].tolist() for _, batch in zip(range(len(dl)), dl)]
        assert len(seen) == 15 and sampler.epoch == epoch
        assert sampler.state_dict(15) == sampler.state_dict()
    assert next(iter(sampler)) == loader(ds, batch_size=20, seed=3).samples_at(3, 0)


def test_what_a_sampler_gives_in_one_loop_has_a_state(ds: penstock.Dataset) -> None:
    # As torchdata's StatefulDataLoader uses it: the sampler's state, then that of what iter() of it gave.
    sampler, other = BatchSampler(ds, batch_size=20, seed=3), BatchSampler(ds, batch_size=20, seed=3)
    running = iter(sampler)
    for consumed in range(16):
        other.load_state_dict(sampler.state_dict())
        going_on = iter(other)
        going_on.load_state_dict(running.state_dict())  # type: ignore[attr-defined]
        assert list(going_on) == [sampler._loader.samples_at(0, step) for step in range(consumed, 15)]
        assert next(iter(other)) == sampler._loader.samples_at(1, 0)
        assert (next(running, None) is None) == (consumed == 15)


def test_samplers_are_not_divided_twice(ds: penstock.Dataset) -> None:
    assert BatchSampler(ds, batch_size=20).batch_size == 20
    with pytest.raises(penstock.Invalid, match="already"):
        _ = BatchSampler(ds, batch_size=20, dp_rank=0, dp_size=2).batch_size


def test_state_counts_batches_of_a_sampler_at_its_end(ds: penstock.Dataset) -> None:
    # DataLoader comes to the end of the sampler some batches before the loop does.
    sampler = BatchSampler(ds, batch_size=20, seed=3)
    list(sampler)
    assert sampler.state_dict(13)["epoch"] == 0 and sampler.state_dict(13)["position"] == 260
    assert sampler.state_dict(15) == sampler.state_dict()


def first_of(samples: list[Any]) -> Any:
    return torch.tensor([sample["n"] for sample in samples])


def test_masks(ds: penstock.Dataset) -> None:
    with pytest.raises(penstock.Invalid, match="repeat"):
        BatchSampler(ds, batch_size=64, pad="mask")
    batch, mask = loader(ds, batch_size=64, pad="mask", fields=["n"], collate_fn=first_of).batch_at(0, 4)
    assert batch.shape == (64,) and mask.dtype == torch.bool and int(mask.sum()) == COUNT - 4 * 64


def lazy(samples: list[Any]) -> Any:
    numbers = torch.complex(torch.arange(20000.0), torch.ones(20000))
    return numbers.conj(), numbers.conj().imag


def test_tensors_that_are_yet_to_be_conjugated(ds: penstock.Dataset) -> None:
    with loader(ds, batch_size=20, fields=["n"], collate_fn=lazy, num_workers=1) as dl:
        conjugate, imaginary = next(iter(dl))
    assert complex(conjugate[7]) == 7 - 1j and float(imaginary[7]) == -1


def ragged(samples: list[Any]) -> Any:
    return torch.nested.nested_tensor([torch.ones(20000), torch.ones(30000)])


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_nested_tensors(ds: penstock.Dataset) -> None:
    try:
        pickle.dumps(ragged([]))
    except (AttributeError, RuntimeError):
        pytest.skip("torch itself cannot send them")
    with loader(ds, batch_size=20, fields=["n"], collate_fn=ragged, num_workers=1) as dl:
        assert [len(part) for part in next(iter(dl)).unbind()] == [20000, 30000]


# Versions that are published while ranks start.


@pytest.mark.parametrize("place", ["directory", "node"])
@pytest.mark.parametrize("when", ["after", "before"])
def test_all_ranks_see_one_version(
    tmp_path: Path, node: Node, client: penstock.Client, bucket: str, place: str, when: str
) -> None:
    name, size = f"agreed-{when}", 3
    where = {"bucket": bucket, "client": client} if place == "node" else {"to": tmp_path / name}

    def publish() -> None:
        with penstock.create(name, base=True, **where) as w:  # type: ignore[arg-type]
            for i in range(40 * (w.version - 1), 40 * w.version):
                w.add(f"{i}", {"n": i})

    publish()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script, opens = Path(__file__).with_name("agree_ranks.py"), name if place == "node" else str(tmp_path / name)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, opens, tmp_path, when],
            env={
                **os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "PENSTOCK_ENDPOINT": node.endpoint, "XDG_CACHE_HOME": str(tmp_path / "cache"),
            },  # fmt: skip
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        for rank in (1, 0, 2):  # whoever is first
            (tmp_path / f"go-{rank}").touch()
            while not (tmp_path / f"opened-{rank}").exists():
                assert ranks[rank].poll() is None
                time.sleep(0.01)
            publish()
        said = [rank.communicate(timeout=60)[0].split(maxsplit=2) for rank in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    if when == "after":
        assert [found[1] for found in said] == ["1"] * 3, said
        return
    # Whoever made a loader first has decided, and the others know.
    assert sorted(found[1] == "Stale" for found in said) == [False, True, True], said
    assert all("another rank has opened" in found[2] for found in said if found[1] == "Stale"), said


def test_ranks_that_are_pretended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process group without others, stores of all kinds, and one that is none."""
    distributed = torch.distributed
    for store in (distributed.HashStore(), distributed.FileStore(str(home.parent / "store"), 1)):
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            assert penstock.open(home).version == 1 and penstock.open(home).version == 1
            assert len(loader(penstock.open(home), batch_size=10, fields=["n"])) == COUNT // 10
        finally:
            distributed.destroy_process_group()

    class Pretended(distributed.Store):  # type: ignore[misc, name-defined]
        pass

    monkeypatch.setattr("penstock.agreement._store", Pretended)
    assert penstock.open(home).version == 1


class Slow:
    """A store whose rank 0 is stopped: it answers when it is told to go on."""

    timeout = datetime.timedelta(seconds=0.2)

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def compare_set(self, key: str, expected: str, mine: str) -> bytes:
        self.go_on.wait(60)
        return mine.encode()


def test_a_rank_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Slow()
    monkeypatch.setattr("penstock.agreement._store", lambda: store)
    try:
        with pytest.raises(penstock.Unavailable, match="rank 0 does not answer"):
            penstock.open(home)
    finally:
        store.go_on.set()
    assert penstock.open(home).version == 1


def test_a_rank_that_is_gone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Slow):
        def compare_set(self, key: str, expected: str, mine: str) -> bytes:
            raise RuntimeError("Connection reset by peer")

    monkeypatch.setattr("penstock.agreement._store", Gone)
    with pytest.raises(penstock.Unavailable, match="Connection reset by peer"):
        penstock.open(home)


def test_two_nodes_with_datasets_of_the_same_name(
    tmp_path: Path, client: penstock.Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Node(tmp_path).start()
    try:
        elsewhere = penstock.Client(other.endpoint)
        elsewhere.create_bucket(bucket)
        for of, versions in ((client, 2), (elsewhere, 1)):
            for i in range(versions):
                with penstock.create("twin", bucket=bucket, client=of, base=True) as w:
                    w.add(f"{i}", {"n": i, "of": of.endpoint})
        store = torch.distributed.HashStore()
        monkeypatch.setattr("penstock.agreement._store", lambda: store)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        again = penstock.Client(client.endpoint.replace("127.0.0.1", "localhost"))  # the same node
        with penstock.create("late", bucket=bucket, client=client) as w:
            w.add("a", {"n": 1})
        for of, version in ((client, 2), (elsewhere, 1), (again, 2)):
            found = penstock.open("twin", client=of)
            assert found.version == version and len(loader(pickle.loads(pickle.dumps(found)), batch_size=1)) == version
        assert penstock.open("late", client=client).version == 1
        with penstock.create("late", bucket=bucket, client=client, base=True) as w:
            w.add("b", {"n": 1})
        assert penstock.open("late", client=again).version == 1
    finally:
        other.stop()
