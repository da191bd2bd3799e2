"""The small worlds that the explorer exhausts: a pool, the requests that may live in it, and what may be done."""

from dataclasses import dataclass, field
from functools import reduce

from slotproof.conformance.settings import make_groups, parse_groups
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import append_tokens, new_request

SAMPLED = 1
"""The token that every step samples."""

DRAFTED = 2
"""The token that is drafted, so that an accepted draft makes another prefix than a rejected one."""

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

    def has(self, verb: str) -> bool:
        """Whether the verb can be used in this world."""
        return verb in ALWAYS or verb in self.extras

    def known_keys(self) -> KeyTable:
        """The key of every prefix that a request of this world can reach, so that none gets its key on the way."""
        return reduce(self._with_keys_of, dict.fromkeys(self.prompts), KeyTable())

    def _with_keys_of(self, keys: KeyTable, prompt: Prompt) -> KeyTable:
        keys, request = new_request(keys, "", prompt, self.config.block_size)
        reached = [request]
        while reached:
            request = reached.pop()
            for token in (SAMPLED, DRAFTED) if request.num_tokens < self.max_tokens else ():
                keys, longer = append_tokens(keys, request, (token,), self.config.block_size)
                reached.append(longer)
        return keys


def make_scope(
    *,
    blocks: int,
    requests: int,
    tokens: int,
    block_size: int = 2,
    groups: str = "full",
    free_order: FreeOrder = FreeOrder.UNHASHED_FIRST,
    watermark: int = 0,
    caching: bool = True,
) -> Scope:
    """A world of `blocks` blocks, the null block included, and requests of at most `tokens` finalized tokens.

    The prompts take turns: all begin with one block that is the same, and go on in two different ways.

    Raises:
        SetupError: for groups that are not modelled.
        ValueError: for a configuration no pool can have.
    """
    kinds = make_groups(parse_groups(groups), block_size, window=3)
    config = Config(blocks, kinds, tokens + 1, tokens + 1, watermark, caching, free_order)
    shared = (*range(1, block_size), 2)
    prompts = tuple((*shared, number % 2 + 1)[:tokens] for number in range(requests))
    return Scope(config, prompts)
