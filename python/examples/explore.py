"""Look at a dataset: what is in it, and how well a shuffle mixes it.

python examples/explore.py [NAME | DIR]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter

import shapes

import penstock


def main() -> None:
    ds = penstock.open(sys.argv[1] if len(sys.argv) > 1 else shapes.write(tempfile.mkdtemp(), 1500))
    print(repr(ds))
    print("fields:", ", ".join(ds.fields), "- columns:", ", ".join(ds.columns) or "none")
    for name, value in ds[0].items():
        print(f"  {name}: {len(value)} bytes" if isinstance(value, memoryview) else f"  {name}: {value!r}")
    if ds.classes:
        counts = Counter(sample["cls"] for sample in ds.get(range(len(ds)), fields=["cls"]))
        print("classes:", ", ".join(f"{ds.classes[number]} {count}" for number, count in sorted(counts.items())))
    for shuffle in ("none", "window:64KiB", "window:256KiB", "full"):
        print(f"{shuffle:>14}: {ds.explain(batch_size=32, shuffle=shuffle, measure=False).mixing}")
    print(ds.explain(batch_size=32, shuffle="window:256KiB"))


if __name__ == "__main__":
    main()
