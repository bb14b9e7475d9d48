"""Worker: the V2 graph in PyTorch, decoding one token at a time, in FP32 or with dynamic INT8 matrices.

Weights are random; the graph and its shapes are those of the model. Runs in the peers' environment:
torch_worker.py SHAPE_AS_JSON fp32|int8
"""

import json
import sys

import torch
from torch import nn
from worker import answer, seconds_of


class Block(nn.Module):
    """A block; events are zeros below a threshold, spikes are 0 or 1."""

    def __init__(self, width: int, heads: int, ffn: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.decay = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width, bias=False)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    @staticmethod
    def event(x):
        return torch.where(x.abs() >= 0.97, (x / 0.97).round(), torch.zeros(()))

    def forward(self, c, s, h, keys, values, position: int):
        q, k, v = self.event(self.qkv(self.event(c))).chunk(3, dim=-1)
        h = h + (self.decay(s) - h) * 0.1
        keys[position], values[position] = k[0], v[0]
        shape = (position + 1, self.heads, -1)
        scores = torch.einsum("hd,phd->hp", q.view(self.heads, -1), keys[: position + 1].view(shape))
        weights = (scores - 0.1 * torch.arange(position, -1, -1)).relu()
        weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(1e-6)
        o = torch.einsum("hp,phd->hd", weights, values[: position + 1].view(shape)).reshape(1, -1)
        u = self.norm_1(c + self.out(0.5 * o + 0.5 * h))
        f = (self.up(self.event(u)) >= 1.6).float()
        c = self.norm_2(u + self.down(f))
        return c, (c >= 0.95).float(), h


class Model(nn.Module):
    """Embedding, input neurons, blocks, head."""

    def __init__(self, shape: dict):
        super().__init__()
        width = shape["width"]
        self.shape = shape
        self.embedding = nn.Embedding(shape["vocab"], width)
        self.blocks = nn.ModuleList(
            Block(width, shape["heads"], shape["ffn"]) for _ in range(shape["layers"])
        )
        self.prior = nn.Linear(width, shape["bottleneck"])
        self.head = nn.Linear(width + shape["bottleneck"], shape["vocab"], bias=False)

    def start(self) -> dict:
        width, slots = self.shape["width"], 1024
        return {
            "position": 0,
            "membrane": torch.zeros(1, width),
            "h": [torch.zeros(1, width) for _ in self.blocks],
            "kv": [(torch.zeros(slots, width), torch.zeros(slots, width)) for _ in self.blocks],
        }

    def forward(self, token: int, state: dict):
        c = self.embedding(torch.tensor([token]))
        membrane = 0.95 * state["membrane"] + c
        s = (membrane >= 1).float()
        state["membrane"] = membrane * (1 - s)
        for i, block in enumerate(self.blocks):
            c, s, state["h"][i] = block(c, s, state["h"][i], *state["kv"][i], state["position"])
        state["position"] += 1
        return self.head(torch.cat([c, nn.functional.gelu(self.prior(c))], dim=-1))


class Torch:
    """The model and its requests."""

    def __init__(self, shape: dict, kind: str):
        torch.manual_seed(0)
        model = Model(shape).eval()
        if kind == "int8":
            model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
        self._model = model

    def about(self) -> str:
        """The release."""
        return f"torch {torch.__version__}"

    def decode(self, prefix: int, tokens: int, threads: int) -> list[float]:
        """Seconds of decode passes after `prefix` positions, whose keys and values are zero."""
        torch.set_num_threads(threads)
        with torch.inference_mode():
            state = self._model.start()
            state["position"] = prefix - 1
            newest = [1]

            def step() -> None:
                newest[0] = int(self._model(newest[0], state).argmax())

            seconds: list[float] = seconds_of(step, tokens, threads)
            return seconds


if __name__ == "__main__":
    worker = Torch(json.loads(sys.argv[1]), sys.argv[2])
    answer({"about": worker.about, "decode": worker.decode})
