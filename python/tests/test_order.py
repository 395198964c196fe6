"""The order: the same as in Go, with numpy and without."""

from __future__ import annotations

import json
import pickle
import random
import struct
from typing import Any
from zlib import crc32

import pytest
from conftest import ROOT

from penstock import order as module
from penstock.errors import Invalid
from penstock.order import MAX_SAMPLES, Order, Policy, ranges


def vectors(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((ROOT / "testdata" / "vectors" / "order" / name).read_text())
    return loaded


def of_spec(spec: dict[str, Any]) -> Order:
    return Order(
        samples=spec["samples"],
        chunk=spec["chunk"],
        total_bytes=spec["bytes"],
        dataset=spec["dataset"],
        seed=spec["seed"],
        epoch=spec["epoch"],
        policy=spec["policy"],
    )


@pytest.fixture(params=["plain", "numpy"])
def numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Numpy, or None and the package believes that there is none."""
    if request.param == "numpy":
        np = pytest.importorskip("numpy", reason="numpy is not installed: only the plain way is tested")
        monkeypatch.setattr(module, "_FEW", 0)
        return np
    monkeypatch.setattr(module, "_numpy", lambda: None)
    return None


def test_parts() -> None:
    (parts,) = vectors("parts.json")
    for number, result in parts["mix"]:
        assert module._mix(number) == result
    for key, word, result in parts["derive"]:
        assert module._derive(key, word) == result
    for size, side in parts["side"]:
        assert module._Permutation.of_size(size).side == side
    for size, key, number, result in parts["permute"]:
        permutation = module._Permutation.of_size(size)
        assert permutation.at(key, number) == result
        assert permutation.inverse(key, result) == number


def test_small_orders(numpy: Any) -> None:
    for vector in vectors("small.json"):
        o = of_spec(vector["spec"])
        expected = vector.get("order", [])
        assert o.width == vector["width"], vector["spec"]
        assert o.read(0, len(o) + 1) == expected, vector["spec"]
        assert list(o) == expected
        assert [o[position] for position in range(len(o))] == expected
        assert [o.position(sample) for sample in expected] == list(range(len(o)))


def test_checksums_of_medium_orders(numpy: Any) -> None:
    for vector in vectors("medium.json"):
        if numpy is None and vector["spec"]["samples"] > 20_000:
            continue  # minutes without numpy
        o = of_spec(vector["spec"])
        assert o.width == vector["width"], vector["spec"]
        packed = b"".join(struct.pack("<Q", sample) for sample in o)
        assert crc32(packed) == vector["crc32"], vector["spec"]


def test_positions_of_large_orders(numpy: Any) -> None:
    for vector in vectors("large.json"):
        o = of_spec(vector["spec"])
        assert o.width == vector["width"], vector["spec"]
        for position, sample in vector["at"]:
            assert o[position] == sample, vector["spec"]
            assert o.read(position, 1) == [sample], vector["spec"]
            assert o.position(sample) == position, vector["spec"]


def test_policies() -> None:
    for vector in vectors("policies.json"):
        if "canonical" in vector:
            policy = Policy.parse(vector["text"])
            assert str(policy) == vector["canonical"]
            assert Policy.parse(str(policy)) == policy
        else:
            with pytest.raises(Invalid, match="window:"):
                Policy.parse(vector["text"])


def test_quality(numpy: Any) -> None:
    for vector in vectors("quality.json"):
        spec = vector["spec"]
        sizes, of = ranges(spec["samples"], vector["classes"])
        quality = of_spec(spec).quality(sizes, of, batch=vector["batch"], limit=vector["limit"])
        assert (quality.batches, quality.mean, quality.worst) == (vector["batches"], vector["mean"], vector["worst"])
        assert quality.full == pytest.approx(vector["full"], abs=1e-5)


def test_every_sample_is_there_once(numpy: Any) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(100):
        samples, chunk = chance.randrange(400), chance.randrange(1, 50)
        total_bytes = samples * chance.randrange(1, 100)
        resident = max(int(total_bytes * chance.random() ** 2), 1)
        policy = chance.choice([Policy("none"), Policy("full"), Policy("window", resident)])
        o = Order(samples=samples, chunk=chunk, total_bytes=total_bytes, seed=chance.getrandbits(64), policy=policy)
        whole = list(o)
        assert sorted(whole) == list(range(samples))
        position, count = chance.randrange(samples + 5), chance.randrange(200)
        assert o.read(position, count) == whole[position : position + count]
        for sample in whole[:20]:
            assert whole[o.position(sample)] == sample


def test_is_a_sequence() -> None:
    o = Order(samples=100, chunk=7, seed=3, policy="full")
    whole = list(o)
    assert len(o) == 100 and o.chunks == 15
    assert o[-1] == whole[-1] and o[5:50] == whole[5:50] and o[50:5] == [] and o[90:10:-7] == whole[90:10:-7]
    assert list(reversed(o)) == whole[::-1]
    assert 99 in o and 100 not in o and not o.__contains__("99")
    assert o.index(42) == whole.index(42) and o.count(42) == 1 and o.count(100) == 0
    with pytest.raises(ValueError):
        o.index(42, o.index(42) + 1)
    assert list(pickle.loads(pickle.dumps(o))) == whole


def test_integers_of_numpy() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    for policy in ("none", "full", "window:1KB"):
        plain = Order(samples=100, chunk=7, total_bytes=10_000, seed=3, epoch=5, policy=policy)
        words = {"samples": 100, "chunk": 7, "total_bytes": 10_000, "seed": 3, "epoch": 5}
        other = Order(**{name: np.int64(word) for name, word in words.items()}, policy=policy)
        assert list(other) == list(plain)
        assert plain[np.int32(42)] == plain[42] and plain[np.int8(-3)] == plain[-3]
        assert plain.read(np.int64(90), np.int64(5)) == plain[90:95]
        assert plain.position(np.uint64(42)) == plain.index(42)


def test_wrong_use() -> None:
    for wrong in (
        {"samples": -1},
        {"samples": MAX_SAMPLES + 1},
        {"chunk": 0},
        {"chunk": MAX_SAMPLES + 1},
        {"seed": -1},
        {"seed": 1 << 64},
        {"epoch": -1},
        {"dataset": 1 << 64},
        {"total_bytes": -1},
        {"policy": "half"},
        {"policy": "window:2GiB"},
    ):
        with pytest.raises(Invalid):
            Order(**{"samples": 10, "chunk": 3, **wrong})  # type: ignore[arg-type]
    for kind, resident in (("half", 0), ("full", 1), ("window", 0), ("window", 1 << 63)):
        with pytest.raises(Invalid):
            Policy(kind, resident)
    o = Order(samples=10, chunk=3, policy="full")
    for position in (10, -11):
        with pytest.raises(IndexError):
            o[position]
    for sample in (10, -1):
        with pytest.raises(IndexError):
            o.position(sample)
    for position, count in ((-1, 1), (0, -1)):
        with pytest.raises(Invalid):
            o.read(position, count)
    assert o.read(10, 5) == [] and o.read(8, 5) == o[8:]
