"""Each theorem is proved, and each can fail: a fault planted in the specification turns a named one red."""

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import z3

from slotproof.proofs import engine, scope
from slotproof.proofs.operations import paths_in
from slotproof.proofs.prepared import MODULES, SPECIFICATION, the_code
from slotproof.proofs.prove import carry_out, stated_theorems
from slotproof.proofs.scope import Scope
from slotproof.proofs.theorem import Evidence, Theorem, prove
from slotproof.spec import arithmetic, groups, keys, pool, release
from slotproof.spec.laws import LAWS

THEOREMS = {stated.name: stated for stated in stated_theorems()}


@cache
def evidence_for(name: str) -> Evidence:
    return prove(THEOREMS[name])


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_is_proved_on_a_witness_and_says_what_it_executed(name: str) -> None:
    evidence = evidence_for(name)
    assert (evidence.status, evidence.counterexample) == ("proved", "")
    assert evidence.num_obligations >= 1
    assert evidence.witness
    assert evidence.digests


def test_theorems_are_named_once_and_speak_of_laws_in_one_sentence() -> None:
    assert len(THEOREMS) == len(stated_theorems())
    for stated in THEOREMS.values():
        assert stated.law in {law.id for law in LAWS}
        assert re.fullmatch(r"[\w].*\.", stated.statement)


def test_every_law_about_the_allocator_has_a_theorem() -> None:
    """Left out is what no single call decides: events, what was foretold, and a batch."""
    assert {law.id for law in LAWS} - {stated.law for stated in THEOREMS.values()} == {"BATCH-1", "CAN-1", "EVENT-1"}


NOT_OF_THE_ALLOCATOR = {
    *(f"groups.Group.{name}" for name in ("block_size", "blocks_read", "capped", "longest_hit", "skipped_tokens")),
    *(f"request.{name}" for name in ("append_tokens", "await_load", "new_request", "propose", "schedule", "settle")),
    *("request.withdraw", "request.Request.num_uncomputed_tokens", "release.preempt", "keys.KeyTable.intern"),
    *("snapshot.empty", "snapshot.Snapshot.key", "snapshot.Snapshot.usage", "pool.Pool.num_blocks"),
    "preconditions.PreconditionError.__init__",
}
"""A protocol's declarations, the engine's side of a request, and what only describes a value."""


def test_every_function_of_the_specification_is_executed_by_a_theorem() -> None:
    """Then changing any of them changes the digest of some theorem; the laws and what only validates are left out."""
    scalar = (stated.name for stated in THEOREMS.values() if not stated.operation)
    executed = {function for name in scalar for function in evidence_for(name).digests}
    operations = {stated.operation.name: stated.operation for stated in THEOREMS.values() if stated.operation}
    for operation in operations.values():
        for world in operation.worlds[:7]:
            executed.update(paths_in(operation, world).digests)
    written = {
        f"{function.__module__}.{function.__qualname__}".removeprefix(SPECIFICATION)
        for function, code in the_code()
        if Path(code.co_filename).parent.name == "spec"
    }
    assert written - executed - NOT_OF_THE_ALLOCATOR == set()


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "the cap of finalized tokens is dropped": (
        arithmetic,
        "tokens_to_cache",
        lambda computed, new, num_tokens: computed + new,
        "only finalized blocks are counted as full",
    ),
    "a full block is left out": (
        arithmetic,
        "tokens_to_cache",
        lambda computed, new, num_tokens: arithmetic.imin(computed + new, num_tokens) - 1,
        "every full finalized block is counted",
    ),
    "equality refuses": (
        arithmetic,
        "is_short",
        lambda needed, watermark, free, reserved: needed + watermark >= free - reserved,
        "equality admits",
    ),
    "reserved blocks are ignored": (
        arithmetic,
        "is_short",
        lambda needed, watermark, free, reserved: needed + watermark > free,
        "what is admitted leaves the reserve",
    ),
    "the last block is forgotten": (
        arithmetic,
        "ceil_div",
        lambda tokens, block_size: tokens // block_size,
        "a table has exactly the blocks its tokens need",
    ),
    "a block too many": (
        arithmetic,
        "ceil_div",
        lambda tokens, block_size: tokens // block_size + 1,
        "a table has exactly the blocks its tokens need",
    ),
    "lookahead goes past the model": (
        arithmetic,
        "slots_needed",
        lambda computed, new, lookahead, longest: arithmetic.imin(computed + new, longest) + lookahead,
        "slots never reach past the model",
    ),
    "skipped blocks are asked for": (
        arithmetic,
        "blocks_missing",
        lambda required, skipped, present: arithmetic.imax(required - present, 0),
        "what is missing is exact",
    ),
    "a token too many is behind the window": (
        groups,
        "tokens_behind_window",
        lambda settled, window: arithmetic.imax(settled - window + 2, 0),
        "exactly the entries behind the window are skipped",
    ),
    "the cap forgets a window that starts inside a block": (
        groups,
        "window_admission_cap",
        lambda window, in_flight, longest, block_size: arithmetic.ceil_div(
            arithmetic.imin(window - 1 + in_flight, longest), block_size
        ),
        "the cap covers what a window holds",
    ),
    "a window hit ends with a block too few": (
        groups,
        "blocks_for_window_hit",
        lambda window, block_size: arithmetic.ceil_div(window - 1, block_size) - 1,
        "a window hit has what is read",
    ),
    "a popped block keeps its key": (
        pool,
        "pop_head",
        lambda before: (before.unqueue(before.head()).with_ref(before.head(), 1), before.head()),
        "a popped block is keyless and held once",
    ),
    "a pinned block stays in the queue": (
        pool,
        "pin_block",
        lambda block, before: before.with_ref(block, before.ref(block) + 1),
        "a pinned block is held once more and not queued",
    ),
    "keyless blocks go to the back": (
        release,
        "enqueue_keyless",
        pool.enqueue_released,
        "a released keyless block is popped first",
    ),
    "keyed blocks go to the front": (
        release,
        "enqueue_keyed",
        lambda block, before: before.enqueue_front(block) if before.ref(block) == 0 else before,
        "a released keyed block is popped last",
    ),
    "a release takes two references": (
        release,
        "drop_reference",
        lambda block, before: before.with_ref(block, before.ref(block) - 2),
        "a released block is queued exactly at its last reference",
    ),
    "an eviction frees the block": (
        pool,
        "evict_block",
        lambda block, before: before.with_key(block, -1).with_ref(block, 0),
        "an eviction takes a key and nothing else",
    ),
    "groups share keys": (
        keys,
        "block_key",
        lambda prefix_key, group, num_groups: prefix_key * num_groups,
        "a key stands for one prefix of one group",
    ),
}
"""What is wrong, where, with what in its place, and the theorem that must turn red."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_turns_its_theorem_red_with_inputs_that_show_it(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, faulty, theorem_name = FAULTS[fault]
    assert prove(THEOREMS[theorem_name]).status == "proved"
    monkeypatch.setattr(module, name, faulty)
    evidence = prove(THEOREMS[theorem_name])
    assert evidence.status == "failed"
    assert re.match(r"\w+ = (-?\d+|Pool)", evidence.counterexample), evidence.counterexample


class TestVerdicts:
    def body(self, body: Callable[[Scope], None]) -> Evidence:
        return prove(Theorem("POOL-1", "made up", "Made up.", "all integers", body))

    def test_not_knowing_is_no_proof(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scope, "answer_to_goal", lambda *_: z3.unknown)
        monkeypatch.setattr(engine.BRANCHES, "answer", lambda *_, **__: z3.unknown)
        evidence = self.body(lambda s: s.prove(s.integer("x") >= 0))
        assert (evidence.status, evidence.counterexample) == ("unknown", "Z3 does not know")

    def test_premises_that_nothing_meets_are_no_proof(self) -> None:
        def vacuous(s: Scope) -> None:
            x = s.integer("x")
            s.assume(x < 0)
            s.prove(x == 7)

        evidence = self.body(vacuous)
        assert evidence.status == "failed"
        assert evidence.counterexample == "no input meets the premises, so the theorem says nothing"

    def test_a_counterexample_that_the_concrete_run_does_not_show_is_called_that(self) -> None:
        def blind(s: Scope) -> None:
            x = s.integer("x")
            s.prove(x > 3 if s.symbols else True)

        evidence = self.body(blind)
        assert evidence.status == "failed"
        assert evidence.counterexample.startswith("not reproduced: x = ")

    def test_a_premise_that_the_concrete_run_does_not_meet_is_no_proof(self) -> None:
        """Given a premise that is weaker symbolically, when the witness is run, then the theorem fails, not the run."""

        def premise(s: Scope) -> None:
            x = s.integer("x")
            s.assume((x >= 0) if isinstance(x, engine.Int) else x > 100)
            s.prove(x >= 0)

        evidence = prove(Theorem("ADMIT-1", "t", "T.", "s", premise))
        assert evidence.status == "failed"
        assert evidence.counterexample.startswith("a premise does not hold for x = ")

    def test_an_obligation_that_is_not_shown_is_no_proof(self) -> None:
        evidence = self.body(lambda s: s.prove(arithmetic.ceil_div(s.integer("x"), s.integer("size")) >= 0))
        assert (evidence.status, evidence.counterexample) == ("failed", "not shown: a divisor is positive")

    def test_every_path_is_proved_not_only_the_first(self) -> None:
        def second_path_fails(s: Scope) -> None:
            x = s.integer("x")
            s.prove(x <= 5 if x <= 5 else x < 9)

        assert self.body(second_path_fails).counterexample == "x = 9"


def test_the_specification_is_as_it_was_after_a_proof() -> None:
    before = {name: value for module in MODULES for name, value in vars(module).items()}
    for stated in list(THEOREMS.values())[:3]:
        prove(stated)
    assert {name: value for module in MODULES for name, value in vars(module).items()} == before
    assert engine._runs == []


def test_a_process_that_was_not_forked_proves_as_well() -> None:
    """Given a process in which nothing was imported yet, when it is handed a task, then it knows the theorems."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (evidence,) = pool.submit(carry_out, (("equality admits",), None)).result()
    assert (evidence.theorem.name, evidence.status) == ("equality admits", "proved")
