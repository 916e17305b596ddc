"""Directories of torch.distributed.checkpoint and of DeepSpeed's ZeRO, and broken ones."""

from common import Tensor, accept, f32, reject
from make_torch import MATRIX, archive, call, dict_, integer, integers, pickle, tensor, text, tuple_

MODULE = "torch.distributed.checkpoint.metadata"
SHARDS = ["__0_0.distcp", "__1_0.distcp"]
ROWS = [([0, 0], [1, 3], f32(0, 1, 2)), ([1, 0], [1, 3], f32(3, 4, 5))]
ONES = [1, 1]


def object_(module: str, name: str, **fields: bytes) -> bytes:
    return f"c{module}\n{name}\n)\x81".encode("latin1") + dict_(**fields) + b"b"


def size(sizes) -> bytes:
    return call("torch", "Size", integers(sizes))


def dense(shape, data: bytes) -> bytes:
    """A file with one tensor."""
    strides = [shape[1], 1] if len(shape) == 2 else ONES[: len(shape)]
    return archive(tensor("0", "f32", len(data) // 4, shape, strides), {"0": data})


def dcp(chunks=ROWS, shape=(2, 3), value=integer(7), dtype="float32", located=None, listed=None, **changes) -> dict[str, bytes]:
    """The tensor `w`, of which each rank stores a chunk, and the value `epoch`. `located` and `listed` take the places of
    chunks in the metadata; the others change one part of each location."""
    files, where = {}, []
    names = {}
    for rank, (start, sizes, data) in enumerate(chunks):
        name = SHARDS[rank % 2]
        stored = dense(sizes, data)
        names[rank] = (name, len(files.get(name, b"")), len(stored))
        files[name] = files.get(name, b"") + stored
    stored = archive(value, {})
    name = SHARDS[0]
    names["epoch"] = (name, len(files.get(name, b"")), len(stored))
    files[name] = files.get(name, b"") + stored

    def location(name, offset, length):
        told = {"relative_path": text(name), "offset": integer(offset), "length": integer(length)} | changes
        return object_("torch.distributed.checkpoint.filesystem", "_StorageInfo", **told)

    for rank, (start, _, _) in enumerate(located or chunks):
        where.append(object_(MODULE, "MetadataIndex", fqn=text("w"), offset=size(start)) + location(*names[rank]))
    where.append(object_(MODULE, "MetadataIndex", fqn=text("epoch")) + location(*names["epoch"]))
    boxes = [
        object_(MODULE, "ChunkStorageMetadata", offsets=size(start), sizes=size(sizes)) for start, sizes, _ in listed or chunks
    ]
    # dtype, layout, requires_grad, memory format and pin_memory, as PyTorch stores them up to 2.6.
    layout, format = call("torch.serialization", "_get_layout", text("torch.strided")), call(MODULE, "_MEM_FORMAT_ENCODING", integer(0))
    state = tuple_(f"ctorch\n{dtype}\n".encode(), layout, b"\x89", format, b"\x89")
    properties = f"c{MODULE}\nTensorProperties\n)\x81".encode("latin1") + state + b"b"
    whole = object_(
        MODULE, "TensorStorageMetadata", properties=properties, size=size(shape), chunks=b"](" + b"".join(boxes) + b"e",
    )
    described = dict_(w=whole, epoch=f"c{MODULE}\nBytesStorageMetadata\n)\x81".encode("latin1"))
    stored = b"}(" + b"".join(where) + b"u"
    files[".metadata"] = pickle(object_(MODULE, "Metadata", state_dict_metadata=described, storage_data=stored))
    return files


def states(stage: int, key: str, groups, count=2, slots=()) -> bytes:
    """A rank's part: the flat parameters of each group, and the optimizer's state of the first one."""
    storages = {str(number): data for number, data in enumerate([*groups, *(data for _, data in slots)])}
    flat = {number: tensor(number, "f32", len(data) // 4, [len(data) // 4], [1]) for number, data in storages.items()}
    state = {name: flat[str(len(groups) + number)] for number, (name, _) in enumerate(slots)}
    where = "base_optimizer_state" if stage < 3 else "optimizer_state_dict"
    told = {
        "zero_stage": integer(stage), "partition_count": integer(count),
        key: b"](" + b"".join(flat[str(number)] for number in range(len(groups))) + b"e",
        where: dict_(state=b"}K\0" + dict_(**state) + b"s" if slots else b"}"),
    }
    return archive(dict_(optimizer_state_dict=dict_(**told)), storages)


def model() -> bytes:
    shapes = b"](" + dict_(a=size([2, 3]), b=size([1])) + b"e"
    return archive(dict_(module=b"}", buffer_names=b"]", param_shapes=shapes), {})


def zero(stage: int, parts=((0, 1, 2, 3), (4, 5, 9, 0)), count=2, slots=False) -> dict[str, bytes]:
    key = "single_partition_of_fp32_groups" if stage < 3 else "fp32_flat_groups"
    files = {"latest": b"step"}
    models = ["mp_rank_00"] if stage < 3 else [f"zero_pp_rank_{rank}_mp_rank_00" for rank in range(2)]
    files |= {f"step/{name}_model_states.pt": model() for name in models}
    for rank, part in enumerate(parts):
        own = [(name, f32(*(base + number for number in part))) for name, base in (("exp_avg", 10), ("exp_avg_sq", 20))]
        data = states(stage, key, [f32(*part)], count, own if slots else ())
        files[f"step/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = data
    return files


W = Tensor("w", "f32", [2, 3], MATRIX)
PARAMETERS = [Tensor("a", "f32", [2, 3], MATRIX), Tensor("b", "f32", [1], f32(9))]
SHARES = ((0, 1, 2, 9), (3, 4, 5, 0))


def accepted():
    yield accept("dcp", "a distributed checkpoint of two ranks", dcp(), "", [W])
    columns = [([0, 0], [2, 1], f32(0, 3)), ([0, 1], [2, 2], f32(1, 2, 4, 5)), ([2, 0], [0, 3], b"")]
    yield accept("dcp_columns", "chunks of columns, and one without elements", dcp(columns), "", [W])
    yield accept("zero_2", "a directory of ZeRO, stage 2", zero(2), "", PARAMETERS)
    yield accept("zero_3", "a directory of ZeRO, stage 3", zero(3, SHARES), "", PARAMETERS)


def rejected():
    def bad(name, why, files, kind="corrupt"):
        return reject(name, why, files, "", kind)

    files = dcp()
    without = lambda name: {own: data for own, data in files.items() if own != name}
    yield bad("dcp_no_metadata", "shards without the file that describes them", without(".metadata"))
    yield bad("dcp_no_shard", "a shard is missing", without(SHARDS[1]))
    yield bad("dcp_escape", "a shard outside of the directory", dcp(relative_path=text("../a.distcp")))
    yield bad("dcp_absolute", "a shard with an absolute path", dcp(relative_path=text("/etc/passwd")))
    yield bad("dcp_offset", "an offset beyond the shard", dcp(offset=integer(1 << 40)))
    yield bad("dcp_negative", "a negative offset", dcp(offset=integer(-1)))
    yield bad("dcp_length", "a length beyond the shard", dcp(length=integer(1 << 62)))
    yield bad("dcp_short", "a length that cuts a chunk", dcp(length=integer(100)))
    yield bad("dcp_hole", "a chunk that is missing", dcp(ROWS[:1]))
    overlap = [ROWS[0], ([0, 1], [1, 2], f32(1, 2)), ([1, 2], [1, 1], f32(5))]
    yield bad("dcp_overlap", "chunks that overlap", dcp(overlap))
    outside = [ROWS[0], ([2, 0], [1, 3], f32(3, 4, 5))]
    yield bad("dcp_outside", "a chunk outside of its tensor", dcp(outside))
    yield bad("dcp_twice", "a chunk that is listed twice", dcp(shape=(3, 3), listed=[*ROWS, ROWS[0]]))
    yield bad("dcp_unlocated", "a chunk that no file has", dcp(located=[ROWS[0], ([7, 7], [1, 3], b"")]))
    yield bad("dcp_shape", "a chunk of another shape than stated", dcp(listed=[([0, 0], [2, 3], b"")]))
    yield bad("dcp_dtype", "a chunk of another dtype than stated", dcp(dtype="float16"))
    yield bad("dcp_huge", "a tensor with more elements than can be counted", dcp(shape=[1 << 40] * 2))
    yield bad("dcp_axes", "an offset of a thousand axes", dcp(located=[([0] * 1000, [], b""), ROWS[1]]))
    evil = call("posix", "system", text("echo"))
    yield bad("dcp_os_system", "a value that calls os.system", dcp(value=evil), "unsupported")
    metadata = files[".metadata"][:-1] + b"0" + evil + b"."
    yield bad("dcp_os_system_metadata", "metadata that call os.system", files | {".metadata": metadata}, "unsupported")
    yield bad("dcp_other_object", "metadata of another class", files | {".metadata": pickle(object_(MODULE, "StorageMeta"))})
    transformed = dcp(transform_descriptors=b"](" + text("zstd") + b"e")
    yield bad("dcp_compressed", "chunks that are compressed", transformed, "unsupported")
    for stage, parts in ((2, ((0, 1, 2, 3), (4, 5, 9, 0))), (3, SHARES)):
        yield bad(f"zero_{stage}_count", "fewer files than ranks", zero(stage, parts, count=3))
        yield bad(f"zero_{stage}_short", "too few elements", zero(stage, [part[:1] for part in parts]))
        yield bad(f"zero_{stage}_long", "too many elements", zero(stage, [(*part, *range(8)) for part in parts]))
    yield bad("zero_stage", "an unknown stage", zero(4, SHARES), "unsupported")
