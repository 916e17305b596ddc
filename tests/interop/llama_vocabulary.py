"""llama.cpp's own tokenizer, from the shared libraries of the npm package `@node-llama-cpp/linux-x64`."""

import ctypes
import os
import pathlib

# More than the structure has in any version: it is passed by value, and the library reads what it knows.
PARAMETERS = 256


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * PARAMETERS)]


class Library:
    """The libraries in a folder."""

    def __init__(self, folder: pathlib.Path):
        one = {part: next(folder.glob(f"lib{part}.v*.so")) for part in ("ggml", "llama")}
        ggml = ctypes.CDLL(os.fspath(one["ggml"]), ctypes.RTLD_GLOBAL)
        ggml.ggml_backend_load_all_from_path(os.fspath(folder).encode())
        self.llama = ctypes.CDLL(os.fspath(one["llama"]))
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
        for name, result, arguments in [
            ("llama_backend_init", None, []),
            ("llama_log_set", None, [pointer, pointer]),
            ("llama_model_default_params", Parameters, []),
            ("llama_model_load_from_file", pointer, [text, Parameters]),
            ("llama_model_get_vocab", pointer, [pointer]),
            ("llama_model_free", None, [pointer]),
            ("llama_tokenize", number, [pointer, text, number, pointer, number, ctypes.c_bool, ctypes.c_bool]),
        ]:
            function = getattr(self.llama, name)
            function.restype, function.argtypes = result, arguments
        self.silent = ctypes.CFUNCTYPE(None, ctypes.c_int, text, pointer)(lambda *_: None)
        self.llama.llama_log_set(self.silent, None)
        self.llama.llama_backend_init()

    def parameters(self) -> Parameters:
        """The defaults, but the vocabulary alone is loaded."""
        parameters = self.llama.llama_model_default_params()
        # Truth values after five pointers and numbers of 4 bytes: vocab_only and check_tensors are false, use_extra_bufts is true.
        vocab_only = next(at for at in (72, 64) if list(parameters.bytes[at:at + 3]) == [0, 0, 1])
        parameters.bytes[vocab_only] = 1
        return parameters

    def tokenize(self, path: pathlib.Path, texts: list[str], special: bool) -> list[list[int]]:
        """The ids of texts by the tokenizer in a GGUF file, with or without the special tokens that it adds."""
        model = self.llama.llama_model_load_from_file(os.fspath(path).encode(), self.parameters())
        assert model, f"llama.cpp does not load {path}"
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
