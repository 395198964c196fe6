"""fsspec's s3fs, which pandas, dask, xarray and Hugging Face datasets read S3 with."""

import os

import pytest
import s3fs
from conftest import ENDPOINT, KEYS, OTHER_KEYS, new_name, odd_names

LARGE = os.urandom(20 << 20)


def connect(keys):
    # Left to itself botocore signs addresses, and only them, with signature version 2.
    return s3fs.S3FileSystem(
        key=keys[0], secret=keys[1], endpoint_url=ENDPOINT, config_kwargs={"signature_version": "s3v4"}, use_listings_cache=False, skip_instance_cache=True
    )


@pytest.fixture
def files():
    return connect(KEYS)


@pytest.fixture
def root(files):
    name = new_name("fs")
    files.mkdir(name)
    yield name
    files.rm(name, recursive=True)
    assert not files.exists(name)


def test_files(files, root):
    with files.open(f"{root}/dir/small", "wb") as f:
        f.write(b"hello")
    assert files.cat(f"{root}/dir/small") == b"hello"
    assert files.ls(f"{root}/dir") == [f"{root}/dir/small"]
    assert files.isdir(f"{root}/dir") and files.isfile(f"{root}/dir/small")
    files.mv(f"{root}/dir/small", f"{root}/other dir/ü+%")
    assert files.find(root) == [f"{root}/other dir/ü+%"]
    with pytest.raises(FileNotFoundError):
        files.cat(f"{root}/dir/small")


def test_large_file_by_parts_and_by_pieces(files, root):
    with files.open(f"{root}/large", "wb", block_size=5 << 20) as f:
        for at in range(0, len(LARGE), 1 << 20):
            f.write(LARGE[at : at + (1 << 20)])
    assert files.info(f"{root}/large")["ETag"].endswith('-4"')
    with files.open(f"{root}/large", "rb", block_size=1 << 20) as f:
        for at in 0, 7_000_001, len(LARGE) - 9:
            f.seek(at)
            assert f.read(100) == LARGE[at : at + 100]
    assert files.cat_ranges([f"{root}/large"] * 3, [0, 10, 1000], [5, 11, 9000]) == [LARGE[:5], LARGE[10:11], LARGE[1000:9000]]
    files.copy(f"{root}/large", f"{root}/copy")
    assert files.cat(f"{root}/copy") == LARGE


def test_more_than_a_page(files, root):
    files.pipe({f"{root}/many/{i:04}": b"" for i in range(1203)})
    assert len(files.ls(f"{root}/many")) == 1203
    files.rm(f"{root}/many", recursive=True)
    assert files.find(root) == []


def test_odd_names(files, root):
    # Paths of fsspec have no slash at their ends, and no version in them.
    names = [n for n in odd_names() if not n.endswith("/") and not n.startswith("/") and "?" not in n]
    for name in names:
        files.pipe_file(f"{root}/{name}", name.encode())
    assert {name: files.cat_file(f"{root}/{name}") for name in names} == {name: name.encode() for name in names}
    assert set(files.find(root)) == {f"{root}/{name}" for name in names}


def test_metadata_tags_and_signed_address(files, root):
    import urllib.request

    files.pipe_file(f"{root}/k", b"x", Metadata={"a": "1"}, ContentType="text/x")
    assert files.metadata(f"{root}/k") == {"a": "1"}
    files.put_tags(f"{root}/k", {"t": "1"})
    assert files.get_tags(f"{root}/k") == {"t": "1"}
    with urllib.request.urlopen(files.sign(f"{root}/k", 60)) as answer:
        assert answer.read() == b"x" and answer.headers["Content-Type"] == "text/x"


def test_other_people_are_refused(root):
    with pytest.raises(PermissionError):
        connect(OTHER_KEYS).ls(root)
    with pytest.raises(PermissionError):
        connect((KEYS[0], "wrong")).ls(root)
