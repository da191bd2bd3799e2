"""Paths through short stories from the empty pool, and a vector for each: inputs that together take every way through
the specification which these stories can take, for any implementation to follow.

A story is: A is admitted; then it is freed, preempted or goes on with drafts; then B, whose prompt begins like A's, is
admitted. What is asked is symbolic: chunk, lookahead, reserve, watermark, longest length and flags. Every state is
reached by calls alone, so an allocator that has no way to be put into a state can replay it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Ask, EngineError, check, current_run, explore
from slotproof.proofs.engine import Path as Way
from slotproof.proofs.prepared import the_specification_prepared
from slotproof.proofs.shapes import BLOCK_SIZE, any_config, choose, flag, integer
from slotproof.proofs.values import made, smallness, under
from slotproof.spec import admission, lookup, release, request
from slotproof.spec.admission import Allocation, Call, Refusal
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group, SlidingWindow
from slotproof.spec.keys import KeyTable
from slotproof.spec.lookup import Hit
from slotproof.spec.pool import NO_KEY
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot

FORMAT = "slotproof-vector-1"
SOURCE = "a model of a path through the specification"
LAWS = ("COUNT-1", "REFUSE-2")
"""What every answer speaks about: what is popped, and whether that is refused."""

WINDOW = 3
USABLE = 4
"""Blocks a group, the null block apart."""

PROMPTS = {"A": 5, "B": 6}
"""Tokens of each prompt; B's begins with A's."""

DRAFTS = 2


@dataclass(frozen=True, slots=True)
class Told:
    """A story as far as it is told: the allocator, the prefixes known, and the calls made, as actions of a vector."""

    snapshot: Snapshot
    keys: KeyTable
    actions: tuple[dict[str, Any], ...] = ()

    def after(self, action: dict[str, Any], snapshot: Snapshot) -> "Told":
        """The story with one call more, and the free blocks that are expected behind it."""
        expect = {**action.pop("expect", {}), "free": snapshot.pool.num_free()}
        return replace(self, snapshot=snapshot, actions=(*self.actions, {**action, "expect": expect}))

    def answered(self, action: dict[str, Any], result: Allocation | Refusal) -> "Told":
        """The story with one admission more, and the answer that is expected of it."""
        answer = result.new_blocks if isinstance(result, Allocation) else None
        return self.after({**action, "expect": {"answer": answer}}, result.snapshot)


GROUPS = ("full", f"window:{WINDOW}", f"full,window:{WINDOW}")


def write_vectors(folder: Path) -> int:
    """Write a vector a path into a folder; how many there are."""
    number = 0
    for kinds in GROUPS:
        for vector in vectors_of(kinds):
            number += 1
            (folder / f"{vector['name']}.json").write_text(json.dumps(vector), encoding="utf-8")
    return number


def vectors_of(kinds: str) -> Iterator[dict[str, Any]]:
    """A vector for each path with these groups, as JSON of the vectors' schema.

    Raises:
        EngineError: for a path of which Z3 gives no example.
    """
    words = kinds.replace(",", "-").replace(":", "-")
    for number, path in enumerate(paths_of(kinds)):
        yield vector_of(f"path-{words}-{number}", kinds.split(","), path)


def paths_of(kinds: str) -> list[Way[Told]]:
    """Every path through the stories with these groups."""
    with the_specification_prepared({}):
        return explore(lambda: tell(kinds.split(",")), ())


def tell(kinds: list[str]) -> Told:
    """One story."""
    told, first = admitted(beginning(kinds), "A")
    if first is not None:
        told = MIDDLES[choose("middle", len(MIDDLES) - 1)](told, first)
    return admitted(told, "B")[0]


def beginning(kinds: list[str]) -> Told:
    """The empty pool of a configuration of which only groups and blocks are fixed."""
    num_blocks = 1 + USABLE * len(kinds)
    groups: tuple[Group, ...] = tuple(
        FullAttention(BLOCK_SIZE) if kind == "full" else SlidingWindow(BLOCK_SIZE, WINDOW) for kind in kinds
    )
    config = any_config(num_blocks, groups, most_watermark=num_blocks - 2)
    longest: Any = config.max_model_len
    current_run().know(longest.term > max(PROMPTS.values()) + DRAFTS)
    refs, keys = (0,) * num_blocks, (NO_KEY,) * num_blocks
    pool: Any = BoundedPool(refs, keys, tuple(range(1, num_blocks)))
    return Told(Snapshot(config, pool, MappingProxyType({})), KeyTable())


def admitted(told: Told, name: str) -> tuple[Told, Request | None]:
    """The story after a request was looked up and asked for its first slots, and the request if it got them."""
    keys, new = request.new_request(told.keys, name, (1,) * PROMPTS[name], BLOCK_SIZE)
    hit = settled_hit(lookup.get_computed_blocks(told.snapshot, new))
    chunk = integer(f"{name} chunk", 1, new.num_tokens - hit.num_tokens)
    call = call_of(told.snapshot, name, new, chunk, hit)
    action = {"verb": "admit", "request": name, "prompt": new.token_ids, "new": chunk, **pressure_of(call)}
    result = admission.admit(told.snapshot, call)
    told = replace(told, keys=keys).answered(action, result)
    if not isinstance(result, Allocation):
        return told, None
    is_rest = bool(chunk == new.num_tokens - hit.num_tokens)
    return told, request.schedule(new, hit.num_tokens, new.num_tokens - hit.num_tokens if is_rest else chunk)


def settled_hit(hit: Hit) -> Hit:
    """The hit with plain numbers; each that it may be is run."""
    return Hit(index(hit.num_tokens), tuple(tuple(map(index, blocks)) for blocks in hit.blocks))


def call_of(snapshot: Snapshot, name: str, asking: Request, new: Any, hit: Hit) -> Call:
    """A call with any pressure."""
    return made(
        Call,
        request=asking,
        num_new_tokens=new,
        hit=hit,
        num_lookahead_tokens=integer(f"{name} lookahead", most=BLOCK_SIZE),
        num_external_computed_tokens=0,
        delay_cache_blocks=False,
        full_sequence_must_fit=flag(f"{name} whole"),
        reserved_blocks=integer(f"{name} reserved", most=snapshot.config.num_blocks),
        has_scheduled_reqs=flag(f"{name} among others"),
    )


def pressure_of(call: Call) -> dict[str, Any]:
    """The arguments that make an admission harder, as an action has them."""
    among_others: Any = call.has_scheduled_reqs
    return {
        "lookahead": call.num_lookahead_tokens,
        "whole": call.full_sequence_must_fit,
        "reserved": call.reserved_blocks,
        "alone": ~among_others,
    }


def freed(told: Told, _: Request) -> Told:
    """A ends."""
    return told.after({"verb": "free", "request": "A"}, release.free(told.snapshot, "A"))


def preempted(told: Told, first: Request) -> Told:
    """A is preempted."""
    return told.after({"verb": "preempt", "request": "A"}, release.preempt(told.snapshot, first)[0])


def drafting(told: Told, first: Request) -> Told:
    """A's first step is done, and it goes on with all it knows and drafts behind that."""
    _, settled = request.settle(told.keys, first, 0, 1, BLOCK_SIZE)
    done = {"verb": "output", "request": "A", "accepted": 0, "token": 1, "uncommitted": True}
    asking = request.propose(settled, (1,) * DRAFTS)
    rest = asking.num_uncomputed_tokens
    call = call_of(told.snapshot, "A again", asking, rest + DRAFTS, lookup.no_hit(told.snapshot))
    asked = {"verb": "extend", "request": "A", "drafts": asking.draft_token_ids, **pressure_of(call)}
    result = admission.admit(told.snapshot, call)
    return told.after(done, told.snapshot).answered(asked, result)


MIDDLES: tuple[Callable[[Told, Request], Told], ...] = (lambda told, _: told, freed, preempted, drafting)
"""What happens to A before B comes."""


def vector_of(name: str, kinds: list[str], path: Way[Told]) -> dict[str, Any]:
    """The vector that a model of a path describes, small numbers if there are any.

    Raises:
        EngineError: where Z3 gives no example.
    """
    told = path.result
    for bounds in (smallness((told.snapshot, tuple(told.actions))), ()):
        _, model = check((*path.known, *bounds), Ask.MODEL)
        if model is not None:
            actions = [plain(under(model, action)) for action in told.actions]
            return {
                "format": FORMAT,
                "name": name,
                "source": SOURCE,
                "laws": list(LAWS),
                "config": config_json(under(model, told.snapshot.config), kinds),
                "actions": actions,
            }
    raise EngineError("Z3 gives no example of a path, so no vector shows it")


def plain(action: Any) -> dict[str, Any]:
    """An action as JSON; what is not asked for is left out."""
    return {name: listed(value) for name, value in action.items() if value is not False}


def listed(value: Any) -> Any:
    """The value with lists in the place of tuples."""
    if isinstance(value, Mapping):
        return plain(value)
    return [listed(part) for part in value] if isinstance(value, tuple) else value


def config_json(config: Config, kinds: list[str]) -> dict[str, Any]:
    """A configuration as the vectors' schema has it."""
    return {
        "num_blocks": config.num_blocks,
        "block_size": BLOCK_SIZE,
        "groups": kinds,
        "max_model_len": config.max_model_len,
        "max_in_flight_tokens": config.max_in_flight_tokens,
        "watermark_blocks": config.watermark_blocks,
        "caching": config.caching,
        "free_order": config.free_order.value,
    }
