"""The small worlds that the explorer exhausts: a pool, the requests that may live in it, and what may be done."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from slotproof.conformance.errors import SetupError
from slotproof.conformance.settings import hash_size_of, make_groups, parse_groups
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import append_tokens, new_request

SAMPLED = 1
"""The token that every step samples."""

DRAFTED = 2
"""The token that is drafted, so that an accepted draft makes another prefix than a rejected one."""

MOST_REQUESTS = 8

Prompt = tuple[int, ...]

ALWAYS = ("admit", "retry", "extend", "output", "free", "preempt")
"""The verbs that every world has."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One small world. As many requests live at a time as there are prompts, each with its own.

    A call brings 1 to `step` new tokens, up to `lookahead` further slots and up to `drafts` draft tokens. `extras` are
    the verbs besides those that every world has.
    """

    config: Config
    prompts: tuple[Prompt, ...]
    step: int = 2
    lookahead: int = 1
    drafts: int = 1
    reserved: int = 0
    """The most blocks that an admission may be asked to leave free."""
    whole: bool = False
    """Whether admissions may also ask for room for the whole prompt."""
    in_flight: bool = False
    """Whether other calls may come between a step and its result, and one more step of the same request; otherwise only
    a step with drafts waits for its result.
    """
    extras: tuple[str, ...] = field(default=())

    @property
    def max_tokens(self) -> int:
        """The most finalized tokens of a request."""
        return self.config.max_model_len - 1

    @property
    def num_requests(self) -> int:
        """Requests that may live at a time."""
        return len(self.prompts)

    def __str__(self) -> str:
        words = f"{self.num_requests} request{'s' if self.num_requests > 1 else ''}, at most {self.max_tokens} tokens"
        words += f", {self.step} new a call, lookahead {self.lookahead}, drafts {self.drafts}"
        words += f", reserved {self.reserved}" if self.reserved else ""
        words += ", whole prompts" if self.whole else ""
        words += ", steps in flight" if self.in_flight else ""
        return words + "".join(f", {verb}" for verb in self.extras)

    def has(self, verb: str) -> bool:
        """Whether the verb can be used in this world."""
        return verb in ALWAYS or verb in self.extras

    def known_keys(self) -> KeyTable:
        """The key of every prefix that a request of this world can reach, so that none gets its key on the way."""
        return reduce(self._with_keys_of, dict.fromkeys(self.prompts), KeyTable())

    def _with_keys_of(self, keys: KeyTable, prompt: Prompt) -> KeyTable:
        config = self.config
        keys, request = new_request(keys, "", prompt, config.block_size, hash_size=config.hash_size)
        reached = [request]
        while reached:
            request = reached.pop()
            for token in (SAMPLED, DRAFTED) if request.num_tokens < self.max_tokens else ():
                keys, longer = append_tokens(keys, request, (token,), config.block_size, config.hash_size)
                reached.append(longer)
        return keys


EXTRAS = {
    "evict": ("evict",),
    "reset": ("reset",),
    "load": ("load", "loaded"),
    "defer": ("defer", "return"),
}
"""What else can happen in a world, by name -> the verbs it takes."""


def make_scope(
    *,
    blocks: int = 5,
    requests: int = 2,
    tokens: int = 4,
    prompt: int | None = None,
    block_size: int = 2,
    groups: str = "full",
    watermark: int = 0,
    caching: bool = True,
    free_order: FreeOrder = FreeOrder.UNHASHED_FIRST,
    extras: Sequence[str] = (),
    **limits: Any,
) -> Scope:
    """A world of `blocks` blocks, the null block included, and `requests` requests of at most `tokens` tokens.

    Prompts have `prompt` tokens, one fewer than a request may have if not said. They begin with one block that is the
    same, and go on in two ways that take turns. `limits` are fields of Scope.

    Raises:
        SetupError: for a world that is not possible, or not modelled.
    """
    kinds = parse_groups(groups)
    length = max(1, tokens - 1) if prompt is None else prompt
    if not 0 < length <= tokens:
        raise SetupError(f"a prompt of {length} tokens is not possible with at most {tokens} tokens; use 1 to {tokens}")
    if not 0 < requests <= MOST_REQUESTS:
        raise SetupError(f"{requests} requests cannot be told apart by a letter each; use 1 to {MOST_REQUESTS}")
    try:
        made = make_groups(kinds, block_size, window=block_size + 1)
        finest = hash_size_of(kinds)
        hash_size = None if finest is None else finest or 1
        config = Config(blocks, made, tokens + 1, tokens + 1, watermark, caching, free_order, hash_size)
    except ValueError as error:
        raise SetupError(f"this world is not possible: {error}") from error
    verbs = tuple(verb for extra in extras for verb in EXTRAS[extra])
    verbs += ("copied",) if config.has_partial_hits else ()
    return Scope(
        config, tuple(prompt_of(number, length, block_size) for number in range(requests)), extras=verbs, **limits
    )


def prompt_of(number: int, length: int, block_size: int) -> Prompt:
    """The prompt of request `number`: the shared block 1 … 1 2, then only 1 or only 2."""
    shared = (*(1,) * (block_size - 1), 2)
    return (*shared, *(number % 2 + 1,) * length)[:length]


def small_worlds() -> dict[str, Scope]:
    """The worlds that are always exhausted, by name: two pools under both free orders, with and without a window; and
    one pool of 4 usable blocks and 2 requests for each thing that else can happen.
    """
    basic = {
        f"{usable} blocks, {requests} requests, {tokens} tokens, {groups}, {order.value}": make_scope(
            blocks=usable + 1, requests=requests, tokens=tokens, groups=groups, free_order=order
        )
        for usable, requests, tokens in ((5, 3, 4), (6, 2, 6))
        for groups in ("full", "window:3")
        for order in FreeOrder
    }
    plain: dict[str, Any] = {"lookahead": 0, "drafts": 0}
    flying: dict[str, Any] = {"in_flight": True, "tokens": 5, "prompt": 3, "lookahead": 0}
    return basic | {
        "watermark, reserve and whole prompts": make_scope(watermark=1, whole=True, reserved=1, drafts=0),
        "evict": make_scope(extras=("evict",), **plain),
        "reset": make_scope(extras=("reset",)),
        "loads, with delayed caching": make_scope(extras=("load",)),
        "deferred frees": make_scope(extras=("defer",), **plain),
        "steps in flight": make_scope(**flying),
        "steps in flight and a window": make_scope(groups="window:2", drafts=0, **(flying | {"prompt": 4})),
        "hits that end inside a block of 2": make_scope(groups="partial", **plain),
        "hits that end inside a block of 3": make_scope(groups="partial", blocks=4, tokens=5, block_size=3, **plain),
        "two groups": make_scope(groups="full,window:2", blocks=7, drafts=0),
        "lookahead past the model's length": make_scope(tokens=3, lookahead=2),
        "caching off": make_scope(caching=False),
    }
