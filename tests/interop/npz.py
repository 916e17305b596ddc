"""NumPy itself reads what `ckpt` writes, and the other way round; registers its checks."""

import zipfile

import checkpoints as make
import ml_dtypes
import numpy as np
import safetensors.numpy
from harness import assert_equal, check, convert, load

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1", "c8", "c16"]
SHAPES = [(), (3,), (2, 3), (2, 0, 3), (4, 2, 3)]


def arrays(dtypes) -> dict[str, np.ndarray]:
    """Every dtype, byte order, axis order and rank; no two of the same name."""
    made = {}
    for dtype in dtypes:
        for byte_order in "<>":
            for axis_order in "CF":
                for shape in SHAPES:
                    value = (np.arange(np.prod(shape, dtype=int)) * 37 % 120).reshape(shape).astype(byte_order + dtype)
                    made["/".join(map(str, [dtype, byte_order, axis_order, *shape]))] = np.array(value, order=axis_order)
    assert len(made) == len(dtypes) * 20
    return made


def plain(value: np.ndarray) -> np.ndarray:
    """The same values, little-endian and row-major."""
    return np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"))).reshape(value.shape)


@check()
def what_savez_wrote_comes_back_byte_for_byte(folder):
    np.savez(folder / "in.npz", **arrays(DTYPES), **{"ä/ö": np.ones(3)})
    convert(folder / "in.npz", folder / "out.npz")
    assert (folder / "in.npz").read_bytes() == (folder / "out.npz").read_bytes()


@check()
def every_array_that_save_wrote_comes_back_byte_for_byte(folder):
    for number, value in enumerate(arrays(DTYPES).values()):
        path = folder / f"a{number}" / "w.npy"
        path.parent.mkdir()
        np.save(path, value)
        if number % 7 == 0:
            convert(path, path.with_name("v.npy"))
            assert path.read_bytes() == path.with_name("v.npy").read_bytes(), (value.dtype, value.shape)
    assert number == 20 * len(DTYPES) - 1


@check()
def arrays_arrive_in_safetensors_bit_for_bit_and_come_back(folder):
    given = arrays([dtype for dtype in DTYPES if dtype != "c16"])
    np.savez(folder / "in.npz", **given)
    convert(folder / "in.npz", folder / "mid.safetensors")
    assert_equal(load(folder / "mid.safetensors"), {name: plain(value) for name, value in given.items()})
    convert(folder / "mid.safetensors", folder / "out.npz")
    assert (folder / "in.npz").read_bytes() == (folder / "out.npz").read_bytes()


@check()
def numpy_reads_what_is_written(folder):
    given = {f"t/{name}": plain(value) for name, value in arrays(["f8", "f4", "f2", "i4", "i1", "u8", "b1", "c8"]).items()}
    safetensors.numpy.save_file(given, folder / "in.safetensors")
    convert(folder / "in.safetensors", folder / "out.npz")
    with np.load(folder / "out.npz") as found:
        assert_equal(dict(found), given)
    with zipfile.ZipFile(folder / "out.npz") as archive:
        assert archive.testzip() is None
        np.savez(folder / "again.npz", **{name[:-4]: given[name[:-4]] for name in archive.namelist()})
    assert (folder / "out.npz").read_bytes() == (folder / "again.npz").read_bytes()


@check()
def a_dtype_that_numpy_lacks_arrives_with_the_same_values(folder):
    prefix = make.every_dtype(folder)
    said = convert(prefix, folder / "out.npz", "--set", "keys=true")
    assert "retyped" in said, said
    stored = make.stored(prefix)
    with np.load(folder / "out.npz") as found:
        assert len(stored) == len(make.DTYPES) and sorted(found.files) == sorted(stored), found.files
        for name, value in stored.items():
            same = found[name].astype(np.complex128), np.asarray(value).astype(np.complex128)
            assert np.array_equal(*same, equal_nan=True), name


@check()
def a_keras_model_arrives_in_numpy(folder):
    model = make.mlp()
    convert(make.checkpoint(model, folder), folder / "out.npz", "--allow", "all")
    with np.load(folder / "out.npz") as found:
        assert_equal({v.path: found[v.path] for v in model.trainable_variables},
                     {v.path: v.numpy() for v in model.trainable_variables})


@check("pipe", "small")
def archives_of_other_writers_are_read(folder, writer):
    value = make.values((4, 6))
    if writer == "pipe":
        class Pipe:
            """A file that can only be written to, so that sizes follow the data."""

            def __init__(self, file):
                self.write, self.flush = file.write, file.flush

        with open(folder / "in.npz", "wb") as file, zipfile.ZipFile(Pipe(file), "w") as archive:
            with archive.open("w.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value)
    else:
        np.save(folder / "w.npy", value)
        with zipfile.ZipFile(folder / "in.npz", "w") as archive:
            archive.write(folder / "w.npy", "w.npy")
            archive.comment = b"by hand"
    convert(folder / "in.npz", folder / "out.safetensors")
    assert_equal(load(folder / "out.safetensors"), {"w": value})


@check("object", "text", "bfloat16", "structured")
def what_is_no_array_of_numbers_is_refused_with_a_remedy(folder, sort):
    value, said = {
        "object": (np.array([None]), "pickled"), "text": (np.array(["a"]), "strings"),
        "bfloat16": (np.ones(3, ml_dtypes.bfloat16), "dtype=bfloat16"), "structured": (np.ones(2, [("x", "f4")]), "each field"),
    }[sort]
    np.savez(folder / "in.npz", w=value, v=np.ones(2))
    assert said in convert(folder / "in.npz", folder / "out.safetensors", fails=True)
    convert(folder / "in.npz", folder / "out.safetensors", "--from-set", "lenient=true")
    assert_equal(load(folder / "out.safetensors"), {"v": np.ones(2)})


@check()
def a_compressed_archive_becomes_what_savez_writes(folder):
    random = np.random.default_rng(1).standard_normal((700, 900)).astype("f4")
    arrays = {"w": random, "t": np.asfortranarray(random[:300]), "z": np.zeros((0, 3), "f4"), "n": np.arange(500_000)}
    np.savez_compressed(folder / "in.npz", **arrays)
    np.savez(folder / "expected.npz", **arrays)
    convert(folder / "in.npz", folder / "out.npz")
    assert (folder / "out.npz").read_bytes() == (folder / "expected.npz").read_bytes()
    convert(folder / "in.npz", folder / "out.safetensors")
    assert_equal(load(folder / "out.safetensors"), arrays)


@check()
def an_archive_beyond_4_gib_is_read_by_numpy(folder):
    # A file with a hole: the disk holds next to nothing of it.
    size = 2**32 + 8
    header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},"b":{"dtype":"U8","shape":[2],"data_offsets":[%d,%d]}}'
    header %= (size, size, size, size + 2)
    with open(folder / "in.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(size, 1)
        file.write(b"\1\2")
    convert(folder / "in.safetensors", folder / "out.npz", "--no-sync")
    with np.load(folder / "out.npz") as found:
        assert found["b"].tolist() == [1, 2]
        info = found.zip.getinfo("a.npy")
        assert info.file_size == size + 128 and found.zip.getinfo("b.npy").header_offset > size
    convert(folder / "out.npz", folder / "b.npy", "--include", "b")
    assert np.load(folder / "b.npy").tolist() == [1, 2]
