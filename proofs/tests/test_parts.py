"""Faults in copying the end of a hit, planted in the specification: each turns a named theorem red."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.theorem import prove
from slotproof.spec import admission, copies, lookup, parts, release, request
from slotproof.spec.pool import NO_BLOCK

THEOREMS = {stated.name: stated for stated in stated_theorems()}
IDLE_HITS, LIST_COPIES = admission.idle_hits, copies.list_copies
SETTLED, KEY_PARTS, RELEASE_COPY = parts.settled_parts, request.key_parts, copies.release_copy


def counts_no_source(snapshot: Any, call: Any) -> Any:
    return IDLE_HITS(snapshot, replace(call, hit=replace(call.hit, tails=())))


def pins_no_private_block(snapshot: Any, request_id: str, hit: Any) -> Any:
    listed = LIST_COPIES(snapshot, request_id, hit)
    return listed.with_pool(snapshot.pool)


def copies_into_the_wrong_block(snapshot: Any, request_id: str, hit: Any) -> Any:
    listed = LIST_COPIES(snapshot, request_id, hit)
    return replace(listed, copies=tuple(copy._replace(destination=copy.source) for copy in listed.copies))


def the_last_to_offer(snapshot: Any, key: int) -> int:
    return next((part.block for part in reversed(snapshot.parts) if part.key == key), NO_BLOCK)


def ends_the_youngest(snapshot: Any) -> Any:
    return RELEASE_COPY(replace(snapshot, copies=snapshot.copies[::-1]))


def keys_what_is_not_there(keys: Any, asking: Any, block_size: int, hash_size: int) -> Any:
    keys, keyed = KEY_PARTS(keys, asking, block_size, hash_size)
    return keys, replace(keyed, part_keys=tuple(part[:-1] for part in keyed.part_keys))


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "source not pinned": (admission, "pin_sources", lambda snapshot, hit: snapshot, "what is copied from is pinned"),
    "idle source not counted": (admission, "idle_hits", counts_no_source, "a copy is refused exactly when short"),
    "private block not pinned": (admission, "list_copies", pins_no_private_block, "both ends of a copy are pinned"),
    "copied into the source": (
        admission,
        "list_copies",
        copies_into_the_wrong_block,
        "exactly the end of a hit is copied",
    ),
    "parts outlive their block": (
        admission,
        "withdraw_popped",
        lambda before, after, request_id: after,
        "a popped block offers no part",
    ),
    "a token too many is offered": (
        parts,
        "settled_parts",
        lambda snapshot, asking, number, index, tokens: SETTLED(snapshot, asking, number, index, tokens + 1),
        "a commit offers only computed parts",
    ),
    "nothing is offered": (
        parts,
        "new_parts",
        lambda snapshot, asking, number, tokens: (),
        "a commit offers every computed part",
    ),
    "the last block stays keyless": (
        parts,
        "key_last_block",
        lambda snapshot, asking, number, tokens: snapshot,
        "the last block is keyed by its longest part",
    ),
    "nothing left to compute": (lookup, "imin", lambda one, other: one, "a hit ends in the longest part"),
    "the last to offer": (lookup, "part_of", the_last_to_offer, "the first to offer a part is copied from"),
    "the youngest copy ends": (copies, "release_copy", ends_the_youngest, "the oldest copy lets go of both ends"),
    "evicted parts are offered": (
        release,
        "withdraw_parts",
        lambda snapshot, blocks: snapshot,
        "an eviction withdraws parts",
    ),
    "a part has no key": (
        request,
        "key_parts",
        keys_what_is_not_there,
        "a part stands for its tokens behind its parent",
    ),
}
"""What is wrong, where, with what in its place, and the theorem that must turn red."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_copying_is_shown(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, faulty, theorem_name = FAULTS[fault]
    monkeypatch.setattr(module, name, faulty)
    evidence = prove(THEOREMS[theorem_name])
    assert evidence.status == "failed", evidence.counterexample
    assert evidence.counterexample
