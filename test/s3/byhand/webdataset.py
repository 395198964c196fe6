"""WebDataset: shards written through a pipe to S3 and read back by a loader's workers."""

import importlib.metadata
import sys

sys.path.pop(0)  # this file is called as the library

import webdataset as wds

if __name__ == "__main__":
    print("webdataset", importlib.metadata.version("webdataset"))
    for shard in range(4):
        with wds.TarWriter(f"pipe:aws s3 cp - s3://byhand-webdataset/shard-{shard}.tar") as out:
            for i in range(shard * 250, shard * 250 + 250):
                out.write({"__key__": f"{i:04}", "cls": i, "bin": bytes(4000)})
    urls = "pipe:aws s3 cp s3://byhand-webdataset/shard-{0..3}.tar -"
    data = wds.WebDataset(urls, shardshuffle=4).shuffle(100).decode().to_tuple("cls", "bin")
    seen = [int(cls) for cls, _ in wds.WebLoader(data, num_workers=2, batch_size=None)]
    assert sorted(seen) == list(range(1000)) and seen != sorted(seen)
    print("4 shards of 250 samples written and read through pipe:aws s3 cp, by 2 workers")
