"""Small networks as devices run them, with an input each: `models()` names them all."""

import torch
from torch import nn


def models() -> dict[str, tuple[nn.Module, dict[str, torch.Tensor]]]:
    """Each network with its input; the weights are random."""
    return {
        "voice": (Recurrent(nn.Conv1d(1, 64, 256, 128), nn.LSTM(64, 64, batch_first=True), 1), {"sound": torch.randn(1, 1, 16000)}),
        "pitch": (pitch(), {"frames": torch.randn(8, 1, 1024)}),
        "reader": (Reader(), {"line": torch.randn(1, 1, 32, 256)}),
        "face": (face(), {"image": torch.randn(1, 3, 128, 128)}),
        "denoiser": (Recurrent(nn.Conv1d(42, 24, 1), nn.GRU(24, 96, batch_first=True), 22), {"features": torch.randn(1, 42, 200)}),
        "keywords": (keywords(), {"features": torch.randn(1, 1, 49, 10)}),
        "objects": (objects(), {"image": torch.randn(1, 3, 224, 224)}),
        "texts": (Texts(), {"vectors": torch.randn(1, 64, 128)}),
        "segments": (segments(), {"image": torch.randn(1, 3, 96, 96)}),
        "tables": (nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)),
                   {"rows": torch.randn(64, 64)}),
    }


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    """With normalization and ReLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def separable(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    """Each channel by itself, then all channels at each place."""
    return nn.Sequential(convolution(inputs, inputs, kernel, stride, inputs), convolution(inputs, outputs, 1))


class Recurrent(nn.Module):
    """A convolution over time, a recurrent layer, and a sigmoid for each step."""

    def __init__(self, convolution: nn.Conv1d, layer: nn.RNNBase, outputs: int):
        super().__init__()
        self.convolution, self.layer, self.outputs = convolution, layer, nn.Linear(layer.hidden_size, outputs)

    def forward(self, x):
        steps, _ = self.layer(torch.relu(self.convolution(x)).transpose(1, 2))
        return torch.sigmoid(self.outputs(steps))


def pitch() -> nn.Module:
    layers = [nn.Conv1d(1, 128, 512, 4, 254), nn.ReLU(), nn.MaxPool1d(2)]
    for inputs, outputs in ((128, 16), (16, 16), (16, 16), (16, 32)):
        layers += [nn.Conv1d(inputs, outputs, 64, padding="same"), nn.ReLU(), nn.MaxPool1d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 8, 360), nn.Sigmoid())


class Reader(nn.Module):
    """Convolutions over a line of text, and a recurrent layer in both directions."""

    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(convolution(1, 32, 3), nn.MaxPool2d(2), convolution(32, 64, 3), nn.MaxPool2d(2),
                                   convolution(64, 128, 3), nn.MaxPool2d((8, 1)))
        self.layer = nn.LSTM(128, 96, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(192, 90)

    def forward(self, line):
        steps, _ = self.layer(self.image(line).squeeze(2).transpose(1, 2))
        return torch.log_softmax(self.letters(steps), -1)


def face() -> nn.Module:
    widths = [(24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 48, 1), (48, 56, 2), (56, 72, 1), (72, 88, 2), (88, 96, 1)]
    return nn.Sequential(convolution(3, 24, 5, 2), *(separable(a, b, 5, stride) for a, b, stride in widths), nn.Conv2d(96, 96, 1))


def keywords() -> nn.Module:
    layers = [separable(64, 64, 3) for _ in range(4)]
    return nn.Sequential(convolution(1, 64, 5, 2), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


def objects() -> nn.Module:
    import torchvision

    return torchvision.models.mobilenet_v3_small(weights=None)


class Texts(nn.Module):
    """Two layers of attention, and the mean of all places."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, activation="gelu")
        self.layers, self.classes = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 6)

    def forward(self, vectors):
        return self.classes(self.layers(vectors).mean(1))


def segments() -> nn.Module:
    down = [convolution(3, 16, 3), convolution(16, 32, 3, 2), convolution(32, 64, 3, 2)]
    up = [nn.ConvTranspose2d(64, 32, 2, 2), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2), nn.ReLU(), nn.Conv2d(16, 2, 1)]
    return nn.Sequential(*down, *up)
