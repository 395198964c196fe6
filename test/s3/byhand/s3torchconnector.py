"""s3torchconnector: map and iterable datasets, a loader with workers, checkpoints."""

import os
import sys

sys.path.pop(0)  # this file is called as the library

import s3torchconnector
import torch
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset

print("s3torchconnector", s3torchconnector.__version__)
endpoint, region, bucket = os.environ["S3_ENDPOINT"], "us-east-1", "s3://byhand-s3torchconnector"
options = {"region": region, "endpoint": endpoint, "s3client_config": S3ClientConfig(force_path_style=True)}


def body(item):
    return item.key, item.read()


if __name__ == "__main__":
    checkpoint = S3Checkpoint(**options)
    model = torch.nn.Linear(2000, 2000)  # 16 MB: in parts
    with checkpoint.writer(f"{bucket}/model ü.pt") as f:
        torch.save(model.state_dict(), f)
    with checkpoint.reader(f"{bucket}/model ü.pt") as f:
        assert torch.equal(torch.load(f)["weight"], model.weight)
    for i in range(30):
        with checkpoint.writer(f"{bucket}/samples/{i:02}") as f:
            f.write(b"%d" % i)
    want = {f"samples/{i:02}": b"%d" % i for i in range(30)}
    mapped = S3MapDataset.from_prefix(f"{bucket}/samples/", transform=body, **options)
    assert len(mapped) == 30 and dict(mapped[i] for i in range(30)) == want
    streamed = S3IterableDataset.from_prefix(f"{bucket}/samples/", transform=body, enable_sharding=True, **options)
    loader = torch.utils.data.DataLoader(streamed, num_workers=2, batch_size=None)
    assert dict(loader) == want
    print("16 MB of checkpoint there and back, map and iterable datasets, a loader with 2 workers")
