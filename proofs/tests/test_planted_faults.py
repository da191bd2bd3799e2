"""Each classic fault of an admission, planted in the specification, turns a named theorem red with a small example."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.theorem import prove
from slotproof.spec import admission, arithmetic, release
from slotproof.spec.admission import Growth, Taken
from slotproof.spec.snapshot import Holding, Table

THEOREMS = {stated.name: stated for stated in stated_theorems()}
RELEASE_HEAD, RELEASE_RUN, RELEASE_SKIPPED = admission.release_head, release.release_run, admission.release_skipped


def touches_before_the_check(snapshot: Any, call: Any) -> Any:
    return admission.adopt_hits(RELEASE_SKIPPED(snapshot, call), call)


def counts_the_watermark_for_everybody(snapshot: Any, call: Any) -> Any:
    return snapshot.config.watermark_blocks if call.has_scheduled_reqs else 0


def pops_before_it_pins(snapshot: Any, call: Any) -> Any:
    """One group's new blocks are popped first, its hits pinned then."""
    slots = arithmetic.slots_needed(
        call.num_computed_tokens, call.num_new_tokens, call.num_lookahead_tokens, snapshot.config.max_model_len
    )
    held = snapshot.holding("r").tables[0].length + call.hit_table(0).length
    due = arithmetic.imax(arithmetic.ceil_div(slots, snapshot.config.block_size) - held, 0)
    fresh = admission.repeat(due, admission.pop_into_table, Growth(snapshot.pool, Table()))
    adopted = admission.adopt_hits(snapshot.with_pool(fresh.pool), call)
    holding = adopted.holding("r")
    table = Table(holding.tables[0].entries + fresh.table.entries)
    return Taken(adopted.with_holding("r", Holding((table,), holding.cached)), (fresh.table.entries,))


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "hash cap dropped": (
        admission,
        "tokens_to_cache",
        lambda computed, new, num_tokens: computed + new,
        "draft tokens never get hashes",
    ),
    "touch before check": (
        admission,
        "release_skipped",
        touches_before_the_check,
        "with full attention a refusal leaves no trace",
    ),
    "idle hits not charged": (admission, "idle_hits", lambda snapshot, call: 0, "a call never raises half way"),
    "watermark for running requests": (
        admission,
        "watermark_for",
        counts_the_watermark_for_everybody,
        "the watermark counts for who enters",
    ),
    "reserved blocks ignored": (
        admission,
        "is_short",
        lambda needed, watermark, free, reserved: needed + watermark > free,
        "an accepted call leaves the reserve",
    ),
    "pop before touch": (admission, "take_blocks", pops_before_it_pins, "every adopted hit is pinned"),
    "release one block too many in a window": (
        admission,
        "release_head",
        lambda snapshot, request_id, number, settled: RELEASE_HEAD(snapshot, request_id, number, settled + 2),
        "exactly what the window left is null",
    ),
    "free from the head": (
        release,
        "release_run",
        lambda pool, run, order: RELEASE_RUN(pool, run.reversed(), order),
        "a free queues in order",
    ),
    "stage 0 on the chunk only": (
        admission,
        "whole_prompt_need",
        lambda snapshot, call, idle: admission.step_need(snapshot, call, idle),
        "refused exactly when short",
    ),
    "lookahead past max_model_len": (
        admission,
        "slots_needed",
        lambda computed, new, lookahead, longest: arithmetic.imin(computed + new, longest) + lookahead,
        "a table is exactly long enough",
    ),
}
"""What is wrong, where, with what in its place, and the theorem that must turn red."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_shown_in_a_pool_of_at_most_4_blocks(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, faulty, theorem_name = FAULTS[fault]
    monkeypatch.setattr(module, name, faulty)
    evidence = prove(THEOREMS[theorem_name])
    assert evidence.status == "failed"
    shown = re.match(r"(\d+) usable blocks of", evidence.counterexample)
    assert shown is not None, evidence.counterexample
    assert int(shown[1]) <= 4
    assert "result: " in evidence.counterexample


UNBOUNDED = {
    "hash cap dropped": "drafts never get hashes",
    "touch before check": "a refusal leaves no trace",
    "idle hits not charged": "what leaves the queue was counted",
    "watermark for running requests": "a step is refused exactly if short",
    "reserved blocks ignored": "reserve and watermark stay free",
    "lookahead past max_model_len": "a table grows exactly to its tokens",
}
"""The faults that full attention can have, and the theorem about any pool that each turns red."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNBOUNDED)
def test_a_planted_fault_is_no_theorem_about_any_pool(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, faulty, _ = FAULTS[fault]
    monkeypatch.setattr(module, name, faulty)
    evidence = prove(THEOREMS[UNBOUNDED[fault]])
    assert evidence.status != "proved"
    assert evidence.counterexample
