#!/usr/bin/env python3
"""Networks with random weights as ONNX models, with an input each: `python networks.py FOLDER [--small]`.

From torchvision and transformers, as PyTorch exports them. `--small`: the same architectures, of few and narrow layers.
"""

import pathlib
import sys
import warnings

import numpy
import small_networks
import torch
import torchvision
import transformers

BATCH, TOKENS = 8, 128


def main() -> None:
    folder, small = pathlib.Path(sys.argv[1]), "--small" in sys.argv[2:]
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    side, tokens = (64, 16) if small else (224, TOKENS)
    image = torch.randn(2 if small else BATCH, 3, side, side)
    images = torchvision.models.resnet18 if small else torchvision.models.resnet50
    export(folder / "resnet50", images(weights=None), {"image": image})
    narrow = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
              "vocab_size": 100, "max_position_embeddings": 32}
    bert = transformers.BertConfig(**narrow if small else {})
    export(folder / "bert-base", Hidden(transformers.BertModel(bert)), words(bert.vocab_size, tokens, small))
    narrow = {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 32}
    gpt2 = transformers.GPT2Config(use_cache=False, attn_implementation="eager", **narrow if small else {})
    given = words(gpt2.vocab_size, tokens, small)
    export(folder / "gpt2", Scores(transformers.GPT2LMHeadModel(gpt2), given["tokens"]), given)
    for name, (model, given) in small_networks.models().items():
        export(folder / name, model, given)


def words(vocabulary: int, tokens: int, small: bool) -> dict[str, torch.Tensor]:
    return {"tokens": torch.randint(0, vocabulary, (2 if small else BATCH, tokens))}


class Hidden(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, return_dict=True).last_hidden_state


class Scores(torch.nn.Module):
    """With its mask as a constant: the exporter cannot trace how transformers makes one."""

    def __init__(self, model, tokens):
        super().__init__()
        count, length = tokens.shape
        hidden = torch.full((1, 1, length, length), torch.finfo(torch.float32).min)
        self.model = model
        self.register_buffer("mask", torch.triu(hidden, 1).expand(count, 1, length, length).contiguous())

    def forward(self, tokens):
        return self.model(input_ids=tokens, attention_mask=self.mask, use_cache=False, return_dict=True).logits


def export(path: pathlib.Path, model: torch.nn.Module, given: dict[str, torch.Tensor]) -> None:
    model.eval()
    with torch.no_grad():
        for name, values in [*model.named_parameters(), *model.named_buffers()]:
            # Fresh biases and scales are all alike, and the exporter stores equal tensors once.
            if values.dim() == 1 and values.is_floating_point():
                values.copy_(0.5 + torch.rand_like(values) if "var" in name else values + 0.05 * torch.randn_like(values))
    torch.onnx.export(model, tuple(given.values()), path.with_suffix(".onnx"), input_names=list(given),
                      output_names=["output"], dynamo=False)
    numpy.savez(path.with_suffix(".npz"), **{name: values.numpy() for name, values in given.items()})


if __name__ == "__main__":
    main()
