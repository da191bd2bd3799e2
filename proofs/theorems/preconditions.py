"""Theorems about `spec/preconditions.py`: a call raises exactly if it neglects a duty, and names the first."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from slotproof.proofs.operations import Broken, Operation, Step
from slotproof.proofs.prepared import duties_checked
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.shapes import ASKING, Shape, any_call, any_request, any_snapshot, choose, integer, most_external
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.lookup import blocks_read
from slotproof.proofs.theorems.vocabulary import any_of
from slotproof.proofs.worlds import world
from slotproof.spec import admission, release
from slotproof.spec.keys import block_key
from slotproof.spec.lookup import Hit
from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.preconditions import PreconditionError
from slotproof.spec.snapshot import Snapshot

Duties = list[tuple[str, Any]]
"""Each duty's name and whether it is neglected, in the order in which they are looked at."""


@dataclass(frozen=True, slots=True)
class Neglect:
    """What came out of a call that neglects a duty."""

    name: str


def checking_duties(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its preconditions checked; what it comes to, or the duty that was neglected."""

    def call(before: Snapshot, *arguments: Any) -> Any:
        with duties_checked():
            try:
                return run(before, *arguments)
            except PreconditionError as error:
                return Neglect(error.name)

    return call


def first_is_named(s: Scope, step: Step, duties: Duties) -> None:
    """Prove that the duty that is named is neglected and all before it are kept, or that all are kept."""
    for name, neglected in duties:
        if isinstance(step.result, Neglect) and step.result.name == name:
            s.prove(neglected)
            return
        s.prove(negated(neglected))
    s.prove(not isinstance(step.result, Neglect))


def any_wild_call(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and a call whose numbers are any integers, with a hit that may be of other tokens than blocks, or of a
    group too many.
    """
    snapshot, call = any_call(shape)
    wild = replace(
        call,
        num_new_tokens=integer("any new tokens", None),
        num_lookahead_tokens=integer("any lookahead tokens", None),
        num_external_computed_tokens=integer("any external tokens", None, most_external(shape)),
        reserved_blocks=integer("any reserved blocks", None),
    )
    tokens = integer("hit tokens") if shape.hits else 0
    one_group_more = ((),) * choose("groups too many", 1)
    return snapshot, (replace(wild, hit=Hit(tokens, (*call.hit.blocks, *one_group_more))),)


def any_wild_commit(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, a request that holds something in it, and any integer."""
    return any_snapshot(shape), (any_request(), integer("committed", None))


def any_wild_blocks(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and two integers."""
    return any_snapshot(shape), (tuple(integer(f"evicted {place}", None) for place in range(2)),)


ADMIT_ANYHOW = Operation(
    "allocate_slots, duties checked",
    checking_duties(lambda before, call: admission.admit(before, call)),
    tuple(
        world(shape, any_wild_call)
        for shape in (
            Shape("f", free=1, held=(1,)),
            Shape("f", free=1, held=(0,), others=1, hits=1),
            Shape("w", free=1, held=(0,), others=1, hits=1),
            Shape("f", free=1, held=(1,), others=1, hits=1),
        )
    ),
    "any call, up to 3 usable blocks",
    num_quick=3,
)


@about(ADMIT_ANYHOW, "COUNT-1", "A call raises exactly if it neglects a duty, and names the first that it neglects.")
def a_call_raises_exactly_if_it_neglects_a_duty(s: Scope, step: Step) -> None:
    call, config, tables = step.arguments[0], step.before.config, held_by(step)
    adopted = call.hit.num_tokens + call.num_external_computed_tokens
    computed, counts = call.request.num_computed_tokens, (call.num_lookahead_tokens, call.reserved_blocks)
    given = (call.num_new_tokens, call.num_external_computed_tokens, *counts)
    duties: Duties = [
        ("counts-not-negative", any_of(number < 0 for number in given)),
        ("something-to-allocate", call.num_new_tokens + adopted <= 0),
        ("within-model-length", computed + adopted + call.num_new_tokens > config.max_model_len),
        ("in-flight-is-computed", call.request.num_in_flight_tokens > computed),
        ("table-covers-computed", any_of(computed > table.length * config.block_size for table in tables)),
    ]
    adopts = (adopted > 0) | any(call.hit.blocks)
    first_is_named(s, step, [*duties, *[(name, adopts & broken) for name, broken in adoption_duties(step)]])
    s.prove(not isinstance(step.result, Broken))


def adoption_duties(step: Step) -> Duties:
    """The duties of a call that brings a hit or external tokens."""
    call, config = step.arguments[0], step.before.config
    tokens, found = call.hit.num_tokens, len(call.hit.blocks[0]) * config.block_size
    not_whole = (tokens != found) | (tokens >= call.request.num_tokens)
    return [
        ("adopt-before-holding", any_of(table.length > 0 for table in held_by(step))),
        ("hit-is-whole-blocks", not_whole | (len(call.hit.blocks) != len(config.groups))),
        ("hit-is-current", any_of(is_outdated(step, number) for number in range(len(config.groups)))),
    ]


def is_outdated(step: Step, number: int) -> Any:
    """Whether a block of a group's hit carries another key than that of its position, or is null though it is read."""
    call, config = step.arguments[0], step.before.config
    blocks = call.hit.blocks[number]
    first_read = len(blocks) - blocks_read(config.groups[number], len(blocks))

    def is_wrong(place: int, block: int) -> Any:
        if block == NULL_BLOCK:
            return place >= first_read
        key = block_key(call.request.prefix_key(place), number, len(config.groups))
        return step.before.pool.key_of(block) != key

    return any_of(is_wrong(place, block) for place, block in enumerate(blocks))


def held_by(step: Step) -> Any:
    """The tables of who asks."""
    return step.before.holding(ASKING).tables


COMMIT_ANYHOW = Operation(
    "commit, duties checked",
    checking_duties(lambda before, request, tokens: admission.commit(before, request, tokens)),
    tuple(world(shape, any_wild_commit) for shape in (Shape("f", free=1, held=(1,)), Shape("fw", free=0, held=(1, 2)))),
    "any commit, up to 3 blocks",
)


@about(COMMIT_ANYHOW, "HASH-1", "A commit raises exactly if its tokens are not all finalized and held.")
def a_commit_raises_exactly_if_it_neglects_a_duty(s: Scope, step: Step) -> None:
    request, tokens = step.arguments
    held = [table.length * step.before.config.block_size for table in held_by(step)]
    beyond = any_of(tokens > most for most in (request.num_tokens, *held))
    first_is_named(s, step, [("counts-not-negative", tokens < 0), ("commit-is-held", beyond)])


EVICT_ANYHOW = Operation(
    "evict_blocks, duties checked",
    checking_duties(lambda before, blocks: release.evict_blocks(before, blocks)),
    (world(Shape("f", free=1, held=(1,)), any_wild_blocks),),
    "any two blocks of 2",
)


@about(EVICT_ANYHOW, "EVICT-1", "An eviction raises exactly if it names a block that is not usable.")
def an_eviction_raises_exactly_if_it_neglects_a_duty(s: Scope, step: Step) -> None:
    unusable = any_of((block <= NULL_BLOCK) | (block >= step.before.config.num_blocks) for block in step.arguments[0])
    first_is_named(s, step, [("block-exists", unusable)])
