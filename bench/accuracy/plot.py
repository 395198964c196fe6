#!/usr/bin/env python3
"""Curves and a table out of what run.py wrote.

    python plot.py OUT [--image ../../docs/guide/images/accuracy.svg] [--into ../../docs/guide/shuffling.md]

Prints the table; with --into it also replaces what stands between the marks in that page. Needs matplotlib.
Runs that were cut off are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from variants import MAIN, VARIANTS

Runs = dict[str, dict[int, list[dict[str, Any]]]]  # epochs, by variant and seed

COLORS = {"full": "#222222", "window-4m": "#0b6fb8", "chunks-4m": "#2a9d5c", "webdataset-4m": "#c8551b"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--image", type=Path)
    parser.add_argument("--into", type=Path)
    options = parser.parse_args()
    runs = load(options.out)
    text = table(runs)
    print(text)
    if options.image:
        options.image.parent.mkdir(parents=True, exist_ok=True)
        draw(runs, options.image)
    if options.into:
        page = options.into.read_text()
        marks = r"(<!-- figures -->\n).*?(<!-- end of figures -->)"
        options.into.write_text(re.sub(marks, lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page, flags=re.DOTALL))


def load(out: Path) -> Runs:
    """The runs that came to their end."""
    epochs = json.loads((out / "about.json").read_text())["epochs"]
    runs: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in (out / "results.jsonl").read_text().splitlines():
        found = json.loads(line)
        runs[found["variant"]][found["seed"]].append(found)
    whole = {
        name: {seed: lines for seed, lines in sorted(runs[name].items()) if len(lines) == epochs} for name in VARIANTS
    }
    return {name: seeds for name, seeds in whole.items() if seeds}


def final(seeds: dict[int, list[dict[str, Any]]]) -> list[float]:
    return [lines[-1]["accuracy"] for lines in seeds.values()]


def table(runs: Runs) -> str:
    """Accuracy after the last epoch, beside a full shuffle's, and how well batches were mixed."""
    full = final(runs["full"])
    rows = [
        "| shuffle | seeds | accuracy, % | lowest to highest | against full "
        "| classes in a batch, mean | worst | uneven, 128 | uneven, 4096 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, seeds in runs.items():
        got = final(seeds)
        lines = [line for some in seeds.values() for line in some]

        def mean(field: str) -> float:
            return statistics.fmean(line[field] for line in lines)

        against = f"{statistics.fmean(got) - statistics.fmean(full):+.2f}"
        if len(got) > 1 < len(full):
            error = (statistics.variance(got) / len(got) + statistics.variance(full) / len(full)) ** 0.5
            against += f" ± {error:.2f}"
        within = min(full) <= statistics.fmean(got) <= max(full)
        rows.append(
            f"| {VARIANTS[name].title} | {len(got)} | {statistics.fmean(got):.2f} | {min(got):.2f} to {max(got):.2f} "
            f"| {'' if name == 'full' else against + (', inside' if within else ', outside')} "
            f"| {mean('classes_mean'):.2f} | {min(line['classes_worst'] for line in lines)} "
            f"| {mean('uneven'):.1f} | {mean('uneven_long'):.1f} |"
        )
    return "\n".join(rows)


def draw(runs: Runs, to: Path) -> None:
    """On the left the curves of the main variants, on the right where all of them end."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "penstock", "font.size": 9})
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1.1, 1))
    for name in (name for name in MAIN if name in runs):
        curves = [[line["accuracy"] for line in lines] for lines in runs[name].values()]
        epochs = range(1, len(curves[0]) + 1)
        columns = list(zip(*curves))
        left.fill_between(epochs, [min(c) for c in columns], [max(c) for c in columns], color=COLORS[name], alpha=0.15, lw=0)
        left.plot(epochs, [statistics.fmean(c) for c in columns], color=COLORS[name], label=VARIANTS[name].title)
    left.set(xlabel="epoch", ylabel="accuracy on the test set, %", ylim=(max(left.get_ylim()[0], 60), None))
    left.legend(frameon=False, loc="lower right")
    left.set_title("mean of the seeds; the band is from the lowest to the highest", fontsize=9)

    names = list(runs)[::-1]
    full = final(runs["full"])
    near = [value for seeds in runs.values() for value in final(seeds) if value >= min(full) - 3]
    low = min(near) - 0.1
    right.axvspan(min(full), max(full), color=COLORS["full"], alpha=0.12, lw=0)
    for y, name in enumerate(names):
        got = final(runs[name])
        color = COLORS.get(name, "#777777")
        shown = [value for value in got if value >= low]
        right.plot(shown, [y] * len(shown), "o", ms=4, color=color, alpha=0.7)
        if len(shown) < len(got):
            right.text(low, y, f"◂ {min(got):.1f} to {max(got):.1f}" if not shown else "◂", va="center", color=color)
    right.set(xlabel="accuracy after the last epoch, %", yticks=range(len(names)), ylim=(-0.6, len(names) - 0.4), xlim=(low, max(near) + 0.1))
    right.set_yticklabels([VARIANTS[name].title for name in names])
    right.set_title("each seed; grey is the spread of full", fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(to, metadata={"Date": None})


if __name__ == "__main__":
    main()
