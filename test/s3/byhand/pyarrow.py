"""PyArrow over S3."""

import os
import sys

sys.path.pop(0)  # this file is called as the library

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType, S3FileSystem

print("pyarrow", pa.__version__)
s3 = S3FileSystem(
    access_key=os.environ["S3_ACCESS_KEY"],
    secret_key=os.environ["S3_SECRET_KEY"],
    endpoint_override=os.environ["S3_ENDPOINT"].removeprefix("http://"),
    scheme="http",
    allow_bucket_creation=True,
    allow_bucket_deletion=True,
)
s3.create_dir("byhand-arrow/dir with space/ü")
body = os.urandom(25 << 20)
with s3.open_output_stream("byhand-arrow/large") as f:
    for at in range(0, len(body), 1 << 20):
        f.write(body[at : at + (1 << 20)])
with s3.open_input_file("byhand-arrow/large") as f:
    assert f.size() == len(body)
    assert f.read_at(100, 12_345_678) == body[12_345_678:12_345_778]
    assert f.read() == body
table = pa.table({"n": list(range(100_000)), "part": [i % 5 for i in range(100_000)]})
ds.write_dataset(table, "byhand-arrow/data set", filesystem=s3, format="parquet", partitioning=["part"])
found = ds.dataset("byhand-arrow/data set", filesystem=s3, format="parquet", partitioning=["part"])
assert found.count_rows() == 100_000
assert found.to_table(filter=ds.field("part") == 3).num_rows == 20_000
pq.write_table(table, "byhand-arrow/one.parquet", filesystem=s3)
assert pq.read_table("byhand-arrow/one.parquet", filesystem=s3, columns=["n"])["n"][99_999].as_py() == 99_999
s3.copy_file("byhand-arrow/large", "byhand-arrow/dir with space/ü/copy+%")
s3.move("byhand-arrow/large", "byhand-arrow/moved")
assert s3.get_file_info("byhand-arrow/large").type == FileType.NotFound
assert s3.get_file_info("byhand-arrow/dir with space/ü/copy+%").size == len(body)
assert len(s3.get_file_info(FileSelector("byhand-arrow", recursive=True))) >= 9
s3.delete_dir("byhand-arrow")
print("streams in parts, ranges, a partitioned dataset and Parquet there and back, copy, move, delete_dir")
