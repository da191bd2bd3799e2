"""Two models whose keys and values tell what they were computed from: fingerprints, and a tiny random transformer."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, queries, keys, values) of the new tokens [tokens, H, D] to what each of them attends to [tokens, H, D]."""

VOCABULARY = 11


class Transformer:
    """Random weights, double precision, so that the order of a sum never decides a token."""

    def __init__(self, seed: int, num_layers: int, num_heads: int = 2, head_size: int = 8) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.num_layers, self.num_heads, self.head_size = num_layers, num_heads, head_size
        width = num_heads * head_size

        def weights(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5

        self.embedding = torch.randn((VOCABULARY, width), generator=generator, dtype=torch.float64)
        self.projections = [weights(width, 3 * width) for _ in range(num_layers)]
        self.mixers = [weights(width, width) for _ in range(num_layers)]
        self.head = weights(width, VOCABULARY)
        self.frequencies = 1.0 / 3.0 ** torch.arange(width, dtype=torch.float64)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """The most likely next token after each of the tokens, int64 [tokens]."""
        hidden = self.embedding[tokens] + torch.sin(positions[:, None].double() * self.frequencies)
        for layer in range(self.num_layers):
            shape = (len(tokens), self.num_heads, self.head_size)
            queries, keys, values = (part.reshape(shape) for part in (hidden @ self.projections[layer]).chunk(3, dim=1))
            mixed = attend(layer, queries, keys, values).reshape(len(tokens), -1)
            hidden = torch.tanh(hidden + mixed @ self.mixers[layer])
        return (hidden @ self.head).argmax(dim=1)

    def continuation(self, prompt: Sequence[int], length: int, windows: Sequence[int | None]) -> list[int]:
        """Greedy decoding without any cache: every token is computed from all of the tokens before it."""
        tokens = list(prompt)
        for _ in range(length):
            positions = torch.arange(len(tokens))

            def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
                return attention(queries, keys, values, visible(positions, positions, windows[layer]))  # noqa: B023

            tokens.append(int(self.forward(torch.tensor(tokens), positions, attend)[-1]))
        return tokens[len(prompt) :]


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Which key positions each query position sees, bool [queries, keys]."""
    distance = queries[:, None] - keys[None, :]
    return (distance >= 0) & (distance < (window or len(keys) + int(queries.max()) + 1))


def attention(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """Softmax attention [queries, H, D]. Values that are not seen get weight 0, so a NaN among them still spreads."""
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / queries.shape[-1] ** 0.5
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=2)
    return torch.einsum("hqk,khd->qhd", weights, values)


def fingerprints(tokens: Sequence[int], layer: int) -> list[float]:
    """A number for each position that only the same layer and the same tokens up to there have."""
    state, numbers = 0x9E37 + layer, list[float]()
    for token in tokens:
        state = (state * 1_000_003 + token + 1) % (1 << 31)
        numbers.append(float(state))
    return numbers
