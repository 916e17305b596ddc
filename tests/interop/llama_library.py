"""llama.cpp's own tokenizer, quantizer and forward pass, from the shared libraries of an npm package: see llama_packages.py."""

import ctypes
import os
import pathlib
import struct

import numpy as np

# More than the structures have in any version: they are passed by value, and the library reads what it knows.
PARAMETERS = 256
# Where the parameters of a context are, and what their defaults are. The library is known by its hash.
SIZES, THREADS, POOLING, FLASH, TYPES, FLAGS = 0, 28, 44, 52, 104, 128
DEFAULTS = {SIZES: (512, 2048, 512, 1), THREADS: (4, 4), POOLING: (-1, -1, -1), TYPES: (1, 1)}
F32, OFF, NO_POOLING = 0, 0, 0
# The level of errors in the library's log.
ERROR = 4


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * PARAMETERS)]

    def numbers(self, place: int, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{count}i", self.bytes, place)

    def set(self, place: int, *numbers: int) -> None:
        struct.pack_into(f"<{len(numbers)}i", self.bytes, place, *numbers)


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("tokens", ctypes.POINTER(ctypes.c_int32)), ("embeddings", ctypes.c_void_p),
                ("positions", ctypes.POINTER(ctypes.c_int32)), ("sequence_counts", ctypes.POINTER(ctypes.c_int32)),
                ("sequences", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("outputs", ctypes.POINTER(ctypes.c_int8))]


class Quantization(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("file_type", ctypes.c_int), ("output", ctypes.c_int), ("embedding", ctypes.c_int),
                ("requantize", ctypes.c_bool), ("quantizes_output", ctypes.c_bool), ("copies", ctypes.c_bool), ("is_pure", ctypes.c_bool),
                ("rest", ctypes.c_uint8 * 108)]


# The mixes of types, with their numbers.
MIXES = {
    "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17,
    "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "IQ3_S": 26, "IQ3_M": 27, "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38,
}  # fmt: skip
# A type that all matrices get.
PURE = {"Q4_0": 2}


class NotLoaded(Exception):
    """A file that llama.cpp refuses."""


class Library:
    """The libraries in a folder."""

    def __init__(self, folder: pathlib.Path):
        one = {part: next(folder.glob(f"lib{part}.v*.so")) for part in ("ggml", "llama")}
        ggml = ctypes.CDLL(os.fspath(one["ggml"]), ctypes.RTLD_GLOBAL)
        self.llama = ctypes.CDLL(os.fspath(one["llama"]))
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
        for name, result, arguments in [
            ("llama_backend_init", None, []),
            ("llama_log_set", None, [pointer, pointer]),
            ("llama_model_default_params", Parameters, []),
            ("llama_model_load_from_file", pointer, [text, Parameters]),
            ("llama_model_get_vocab", pointer, [pointer]),
            ("llama_model_free", None, [pointer]),
            ("llama_model_has_encoder", ctypes.c_bool, [pointer]),
            ("llama_model_has_decoder", ctypes.c_bool, [pointer]),
            ("llama_model_n_embd", number, [pointer]),
            ("llama_vocab_n_tokens", number, [pointer]),
            ("llama_context_default_params", Parameters, []),
            ("llama_init_from_model", pointer, [pointer, Parameters]),
            ("llama_free", None, [pointer]),
            ("llama_batch_init", Batch, [number, number, number]),
            ("llama_batch_free", None, [Batch]),
            ("llama_encode", number, [pointer, Batch]),
            ("llama_decode", number, [pointer, Batch]),
            ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [pointer, number]),
            ("llama_get_embeddings_ith", ctypes.POINTER(ctypes.c_float), [pointer, number]),
            ("llama_model_quantize_default_params", Quantization, []),
            ("llama_model_quantize", ctypes.c_uint32, [text, text, ctypes.POINTER(Quantization)]),
            ("llama_tokenize", number, [pointer, text, number, pointer, number, ctypes.c_bool, ctypes.c_bool]),
        ]:
            function = getattr(self.llama, name)
            function.restype, function.argtypes = result, arguments
        self.errors: list[str] = []
        # Kept: the library calls it.
        self.logged = ctypes.CFUNCTYPE(None, ctypes.c_int, text, pointer)(self.log)
        self.llama.llama_log_set(self.logged, None)
        ggml.ggml_backend_load_all_from_path(os.fspath(folder).encode())
        self.llama.llama_backend_init()

    def log(self, level: int, text: bytes, _) -> None:
        if level == ERROR:
            self.errors.append(text.decode(errors="replace").strip())

    def parameters(self) -> Parameters:
        """The defaults, but the vocabulary alone is loaded."""
        parameters = self.llama.llama_model_default_params()
        # Truth values after five pointers and numbers of 4 bytes: vocab_only and check_tensors are false, use_extra_bufts is true.
        vocab_only = next(at for at in (72, 64) if list(parameters.bytes[at:at + 3]) == [0, 0, 1])
        parameters.bytes[vocab_only] = 1
        return parameters

    def tokenize(self, path: pathlib.Path, texts: list[str], special: bool) -> list[list[int]]:
        """The ids of texts by the tokenizer in a GGUF file, with or without the special tokens that it adds."""
        model = self.load(path, self.parameters())
        vocabulary = self.llama.llama_model_get_vocab(model)
        found = []
        for text in texts:
            encoded = text.encode()
            ids = (ctypes.c_int32 * (len(encoded) + 16))()
            count = self.llama.llama_tokenize(vocabulary, encoded, len(encoded), ids, len(ids), special, True)
            assert count >= 0, text
            found.append(list(ids[:count]))
        self.llama.llama_model_free(model)
        return found

    def quantize(self, source: os.PathLike, target: os.PathLike, mix: str, threads: int = 1) -> None:
        """Writes a GGUF file with a mix of types, or with one type."""
        parameters = self.llama.llama_model_quantize_default_params()
        parameters.threads, parameters.file_type, parameters.requantize = threads, (MIXES | PURE)[mix], True
        parameters.is_pure = mix in PURE
        failed = self.llama.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(parameters))
        assert not failed, f"llama.cpp does not quantize {source}"

    def load(self, path: pathlib.Path, parameters: Parameters) -> int:
        self.errors.clear()
        model = self.llama.llama_model_load_from_file(os.fspath(path).encode(), parameters)
        if not model:
            raise NotLoaded(f"llama.cpp does not load {path.name}: {'; '.join(self.errors)}")
        return model

    def compute(self, path: pathlib.Path, ids: list[int], embeds: bool) -> np.ndarray:
        """What a model computes for each token, [tokens, width]: embeddings or logits. The decoder of a model that has both gets the
        same tokens as its encoder."""
        model = self.load(path, self.llama.llama_model_default_params())
        encodes, decodes = self.llama.llama_model_has_encoder(model), self.llama.llama_model_has_decoder(model)
        context = self.llama.llama_init_from_model(model, self.context(len(ids), embeds))
        assert context, f"llama.cpp has no context for {path.name}"
        batch = self.llama.llama_batch_init(len(ids), 0, 1)
        batch.count = len(ids)
        for place, token in enumerate(ids):
            batch.tokens[place], batch.positions[place], batch.outputs[place] = token, place, 1
            batch.sequence_counts[place], batch.sequences[place][0] = 1, 0
        runs = [self.llama.llama_encode] * encodes + [self.llama.llama_decode] * decodes
        assert all(run(context, batch) == 0 for run in runs), f"llama.cpp does not run {path.name}"
        read = self.llama.llama_get_embeddings_ith if embeds else self.llama.llama_get_logits_ith
        width = (self.llama.llama_model_n_embd(model) if embeds else
                 self.llama.llama_vocab_n_tokens(self.llama.llama_model_get_vocab(model)))
        rows = np.stack([np.ctypeslib.as_array(read(context, place), (width,)).copy() for place in range(len(ids))])
        self.llama.llama_batch_free(batch)
        self.llama.llama_free(context)
        self.llama.llama_model_free(model)
        return rows

    def context(self, tokens: int, embeds: bool) -> Parameters:
        """The parameters of a context that computes with floats of 32 bits throughout, on one thread."""
        parameters = self.llama.llama_context_default_params()
        for place, expected in DEFAULTS.items():
            found = parameters.numbers(place, len(expected))
            assert found == expected, f"the library has other parameters: {found} at {place}"
        parameters.set(SIZES, tokens, tokens, tokens, 1)
        parameters.set(THREADS, 1, 1)
        parameters.set(POOLING, NO_POOLING)
        parameters.set(FLASH, OFF)
        parameters.set(TYPES, F32, F32)
        parameters.bytes[FLAGS] = embeds
        return parameters
