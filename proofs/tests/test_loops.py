"""The loop rule is not fooled: by a wrong invariant, a negative count, or a step that breaks it only on its second
turn.
"""

from collections.abc import Callable
from typing import Any

import pytest
import z3

from slotproof.proofs.engine import EngineError, Int, explore
from slotproof.proofs.loops import (
    ANY_BLOCK,
    INVARIANTS,
    Facts,
    Invariant,
    foreach_by_induction,
    occasion,
    repeat_by_induction,
)
from slotproof.proofs.pool import SymbolicPool
from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.table import Run, SymbolicTable
from slotproof.proofs.theorem import Evidence, Theorem, prove, prove_in
from slotproof.proofs.theorems.admission import ANY_POOL
from slotproof.proofs.theorems.release import FREE_ANY
from slotproof.spec import admission, pool, release
from slotproof.spec.admission import Growth
from slotproof.spec.groups import FullAttention, SlidingWindow

TURNS, START = z3.Int("turns"), z3.Int("start")
LOOP_THEOREMS = {stated.name: stated for stated in stated_theorems() if stated.scope == ANY_POOL.scope}
FREE_THEOREMS = {stated.name: stated for stated in stated_theorems() if stated.scope == FREE_ANY.scope}
PINNING = "every hit is pinned once"
GROWING = ["what leaves the queue was counted", "blocks of nobody here are as they were"]


def counted(turn: Any, start: Any, now: Any, *_: Any) -> Facts:
    return [("one more a turn", now == start + turn)]


def not_possible(*conditions: Any) -> bool:
    """Whether Z3 says that the conditions contradict each other."""
    solver = z3.Solver()
    solver.add(*conditions)
    return bool(solver.check() == z3.unsat)


def loop_over(step: Callable[[Any, Any], Any], facts: Callable[..., Facts], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The state after any number of turns from any start, and what is known of it."""
    invariant = Invariant(lambda _, mark: Int(z3.Int(f"state{mark}")), facts)
    monkeypatch.setitem(INVARIANTS, step.__name__, invariant)
    (path,) = explore(lambda: repeat_by_induction(Int(TURNS), step, Int(START)), (TURNS >= 0,))
    return path


def add_one(_: Any, state: Any) -> Any:
    return state + 1


def add_one_then_two(turn: Any, state: Any) -> Any:
    return state + 1 if turn == 0 else state + 2


class TestRule:
    def test_knows_the_invariant_afterwards_and_nothing_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        path = loop_over(add_one, counted, monkeypatch)
        solver = z3.Solver()
        solver.add(*path.known, TURNS >= 0)
        assert solver.check(path.result.term != START + TURNS) == z3.unsat
        assert solver.check(path.result.term == START + 3) == z3.sat

    def test_runs_a_plain_number_of_turns_as_it_is(self) -> None:
        assert repeat_by_induction(3, add_one, 4) == 7
        assert foreach_by_induction((5, 6), lambda item, state: item + state, 1) == 12

    @pytest.mark.parametrize(
        ("step", "facts", "words"),
        [
            (
                add_one,
                lambda turn, start, now, *_: [("two more", now == start + turn + turn)],
                "after a turn of the loop",
            ),
            (
                add_one,
                lambda turn, start, now, *_: [("ahead", now == start + turn + 1)],
                "before the loop over add_one",
            ),
            (add_one_then_two, counted, "after a turn of the loop over add_one_then_two: one more a turn"),
        ],
        ids=["a wrong invariant", "one that does not hold at first", "a step that breaks it on its second turn"],
    )
    def test_is_not_fooled_by(
        self, step: Any, facts: Callable[..., Facts], words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(EngineError, match=words):
            loop_over(step, facts, monkeypatch)

    def test_is_not_fooled_by_a_theorem_that_keeps_its_block_out_of_the_table(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given facts that hold only of blocks not in the table, then they are not shown, whatever the theorem says."""

        def untouched(turn: Any, start: Any, now: Any, block: Any, context: Any) -> Facts:
            place = context["items"].place(block)
            return [("nobody is handled", (place < 0) | (place > turn)), ("nothing happens", now == start)]

        table = SymbolicTable.arbitrary("table", Int(z3.Int("length")))
        kept_out = (table.size > 0, (table.place(Int(z3.Int(ANY_BLOCK))) < 0).term)
        monkeypatch.setitem(INVARIANTS, "add_one", Invariant(lambda _, mark: Int(z3.Int(f"state{mark}")), untouched))
        with pytest.raises(EngineError, match="before the loop over add_one: nobody is handled"):
            explore(lambda: foreach_by_induction(table, add_one, Int(START)), kept_out)

    def test_reads_no_entry_past_the_table(self) -> None:
        table = SymbolicTable.arbitrary("table", Int(z3.Int("length")))
        with pytest.raises(EngineError, match="an entry that is read is in the table"):
            explore(lambda: table.entry(table.length), (table.size > 0,))

    def test_nulls_entries_from_the_front_only(self) -> None:
        table = SymbolicTable.arbitrary("table", Int(z3.Int("length")), Int(z3.Int("nulls")))
        with pytest.raises(EngineError, match="null entries stand in front"):
            explore(lambda: table.with_null(Int(table.nulls + 1)), (table.nulls >= 0, table.nulls + 1 < table.size))

    def test_runs_back_over_the_head_of_a_table(self) -> None:
        """Given a block at a place of a table, when a run goes back over its head, then it stands as far from the end
        and is no longer there if the head is shorter.
        """
        table = SymbolicTable.arbitrary("table", Int(z3.Int("length")))
        block, place, end = Int(z3.Int("block")), z3.Int("place"), z3.Int("end")
        known = (z3.Select(table.places, block.term) == place, place >= 0, end >= 0, end <= table.size)
        (path,) = explore(lambda: table.head(Int(end)).reversed().place(block), known)
        assert not_possible(*known, *path.known, place < end, path.result.term != end - 1 - place)
        assert not_possible(*known, *path.known, place >= end, path.result.term >= 0)

    def test_is_not_fooled_by_turns_that_are_not_possible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(EngineError, match="no turn of the loop over add_one is possible"):
            loop_over(add_one, lambda turn, *_: [("never", turn < 0 if isinstance(turn, Int) else True)], monkeypatch)

    def test_speaks_of_the_theorems_block_only_if_it_is_as_presumed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        invariant = Invariant(lambda _, mark: Int(z3.Int(f"state{mark}")), counted, lambda _, block, __: block > 0)
        monkeypatch.setitem(INVARIANTS, "add_one", invariant)
        with pytest.raises(EngineError, match="the loop over add_one speaks of the block"):
            explore(lambda: repeat_by_induction(Int(TURNS), add_one, Int(START)), (TURNS >= 0,))

    def test_says_which_loop_has_no_invariant(self) -> None:
        with pytest.raises(EngineError, match="no invariant is stated for the loop over add_one_then_two"):
            explore(lambda: repeat_by_induction(Int(TURNS), add_one_then_two, Int(START)), (TURNS >= 0,))

    def test_is_not_fooled_by_a_negative_number_of_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(INVARIANTS, "add_one", Invariant(lambda _, mark: Int(z3.Int(f"state{mark}")), counted))
        with pytest.raises(EngineError, match="a loop has no negative number of turns"):
            explore(lambda: repeat_by_induction(Int(TURNS), add_one, Int(START)), ())


def evidence_for(name: str, theorems: dict[str, Theorem] = LOOP_THEOREMS) -> Evidence:
    """What comes of a theorem in its first world, with full attention."""
    stated = theorems[name]
    assert stated.operation is not None
    return prove_in(stated, stated.operation.worlds[0])


def keeps_the_key(before: Any) -> tuple[Any, Any]:
    return before.unqueue(before.head()).with_ref(before.head(), 1), before.head()


def pops_two(_: int, growth: Growth) -> Growth:
    once, block = pool.pop_head(growth.pool)
    twice, _ = pool.pop_head(once)
    return Growth(twice, growth.table.append(block))


def drops_its_block(_: int, growth: Growth) -> Growth:
    return Growth(pool.pop_head(growth.pool)[0], growth.table)


pops_two.__name__ = drops_its_block.__name__ = "pop_into_table"

FAULTS: dict[str, tuple[str, Any, str]] = {
    "a popped block keeps its key": ("pop_head", keeps_the_key, "a popped block is keyless and held once"),
    "a turn pops two blocks": ("pop_into_table", pops_two, "the queue is not empty when its head is asked for"),
    "a turn forgets its block": ("pop_into_table", drops_its_block, "the table is as much longer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", GROWING)
def test_a_planted_fault_turns_growing_red(fault: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, faulty, words = FAULTS[fault]
    assert evidence_for(name).status == "proved"
    monkeypatch.setattr(admission, function, faulty)
    evidence = evidence_for(name)
    assert evidence.status == "failed"
    assert words in evidence.counterexample


def pins_twice(block: int, before: pool.Pool) -> pool.Pool:
    return pool.pin_block(block, pool.pin_block(block, before))


def leaves_it_queued(block: int, before: pool.Pool) -> pool.Pool:
    return before.with_ref(block, before.ref(block) + 1)


def forgets_to_pin(_: int, before: pool.Pool) -> pool.Pool:
    return before


def pins_and_evicts(block: int, before: pool.Pool) -> pool.Pool:
    return pool.evict_block(block, pool.pin_block(block, before))


def pins_its_neighbour(block: int, before: pool.Pool) -> pool.Pool:
    return pool.pin_block(block + 1, before)


PIN_FAULTS: dict[Any, str] = {
    pins_twice: "what was passed has one reference more",
    leaves_it_queued: "as many fewer are free as hits were idle",
    forgets_to_pin: "as many fewer are free as hits were idle",
    pins_and_evicts: "keys stay",
    pins_its_neighbour: "a block that is taken out of the queue is in it",
}


@pytest.mark.parametrize("faulty", PIN_FAULTS)
def test_a_planted_fault_turns_pinning_red(faulty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evidence_for(PINNING).status == "proved"
    monkeypatch.setattr(faulty, "__name__", "pin_block")
    monkeypatch.setattr(admission, "pin_block", faulty)
    evidence = evidence_for(PINNING)
    assert evidence.status == "failed"
    assert PIN_FAULTS[faulty] in evidence.counterexample


def test_popping_from_too_short_a_queue_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a count of what is missing that is one too low, when the table grows, then the last pop is not shown."""
    name = "what leaves the queue was counted"
    monkeypatch.setattr(admission, "imax", lambda one, other: one + 1)
    assert evidence_for(name).status == "failed"


class TestOccasion:
    """A loop has the name of an earlier one exactly if it starts from the same state over the same items."""

    def names_of(self, *runs: tuple[Any, bool]) -> set[str]:
        """The names of loops over the first so many entries of one table, some of them backwards."""

        def name_all() -> set[str]:
            table, before = SymbolicTable.arbitrary("table", Int(z3.Int("length"))), SymbolicPool.arbitrary()
            return {
                occasion("drop", Int(end), before, {"items": Run(table, end, backwards)}) for end, backwards in runs
            }

        (path,) = explore(name_all, (START > 0,))
        return path.result

    def test_is_the_same_for_equal_numbers(self) -> None:
        assert len(self.names_of((START, False), (z3.If(START > 0, START, 0), False))) == 1

    def test_is_another_for_numbers_that_may_differ(self) -> None:
        assert len(self.names_of((START, False), (TURNS, False))) == 2

    def test_is_another_in_the_other_direction(self) -> None:
        assert len(self.names_of((START, False), (START, True))) == 2


FREEING = "a free of any size takes each entry back once"
STAYING = "a free keeps blocks well formed"


def drops_two(block: int, before: pool.Pool) -> pool.Pool:
    return before if block == 0 else before.with_ref(block, before.ref(block) - 2)


def queues_what_is_held(block: int, before: pool.Pool) -> pool.Pool:
    return before if block == 0 else before.enqueue_back(block)


def keeps_keyed_out(block: int, before: pool.Pool) -> pool.Pool:
    return before


def puts_keyed_in_front(block: int, before: pool.Pool) -> pool.Pool:
    if block == 0 or before.ref(block) > 0 or before.key_of(block) == -1:
        return before
    return before.enqueue_front(block)


RELEASE_FAULTS: dict[Any, tuple[str, str]] = {
    drops_two: ("drop_reference", "what was passed has one reference less"),
    queues_what_is_held: ("enqueue_released", "as many more are free"),
    keeps_keyed_out: ("enqueue_keyed", "as many more are free"),
    puts_keyed_in_front: ("enqueue_keyed", "it stands in order"),
}


@pytest.mark.parametrize("faulty", RELEASE_FAULTS)
@pytest.mark.parametrize("name", [FREEING, STAYING])
def test_a_planted_fault_turns_freeing_red(faulty: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, words = RELEASE_FAULTS[faulty]
    assert evidence_for(name, FREE_THEOREMS).status == "proved"
    monkeypatch.setattr(faulty, "__name__", function)
    monkeypatch.setattr(release, function, faulty)
    evidence = evidence_for(name, FREE_THEOREMS)
    assert evidence.status == "failed"
    assert words in evidence.counterexample


@pytest.mark.parametrize("group", [FullAttention, SlidingWindow])
def test_a_hit_that_leaves_out_a_miss_is_seen(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a lookup that goes on behind a miss, when the hit is any length, then the theorem about it is red."""
    name = {FullAttention: "a full hit ends at the first miss", SlidingWindow: "a window hit is the longest"}[group]
    lookups = {stated.name: stated for stated in stated_theorems()}
    assert prove(lookups[name]).status == "proved"
    longest = group.longest_hit
    monkeypatch.setattr(group, "longest_hit", lambda self, cached, limit: longest(self, lambda _: True, limit))
    assert prove(lookups[name]).status == "failed"
