"""MosaicML streaming: MDS shards written to and read from S3."""

import importlib.metadata

import numpy as np
from streaming import MDSWriter, StreamingDataset

if __name__ == "__main__":
    print("mosaicml-streaming", importlib.metadata.version("mosaicml-streaming"))
    with MDSWriter(out="s3://byhand-mosaic/set", columns={"n": "int", "x": "ndarray"}, size_limit=1 << 20, hashes=["sha1"]) as out:
        for i in range(2000):
            out.write({"n": i, "x": np.full(500, i, dtype=np.int32)})
    read = StreamingDataset(remote="s3://byhand-mosaic/set", local="cache", shuffle=True, batch_size=4, download_retry=1)
    seen = sorted(int(s["n"]) for s in read)
    assert seen == list(range(2000)) and (read[7]["x"] == 7).all()
    print("2000 samples in shards of 1 MiB written to S3 and read shuffled")
