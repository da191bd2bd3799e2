"""The simulated worker: it does what a plan says, and notices what a plan gets wrong."""

import pytest

from slotproof.conformance.scheduler_adapter import Continued, EngineConfig, Entered, LoadOrder, Plan
from slotproof.conformance.worker import Behaviour, Executed, Worker
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group, SlidingWindow

FULL, WINDOW = FullAttention(2), SlidingWindow(2, 3)


def engine(*groups: Group, asynchronous: bool = False, num_drafts: int = 0) -> EngineConfig:
    return EngineConfig(Config(9, groups or (FULL,), 12, 16), asynchronous, num_drafts=num_drafts, connector="fail")


def worker(config: EngineConfig | None = None, **behaviours: Behaviour) -> Worker:
    return Worker(config or engine(), {"A": Behaviour(), "B": Behaviour(), **behaviours})


def plan(number: int, *rows: Entered | Continued, drafts: dict[str, list[int]] | None = None, **counts: int) -> Plan:
    entered = [row for row in rows if isinstance(row, Entered)]
    continued = [row for row in rows if isinstance(row, Continued)]
    return Plan(number, counts, drafts or {}, entered, continued, (), ())


def with_load(made: Plan, *loads: LoadOrder) -> Plan:
    return Plan(made.number, made.scheduled, made.drafts, made.entered, made.continued, (), loads)


def texts(done: Executed) -> list[tuple[str, str]]:
    return [(one.law_id, one.text) for one in done.objections]


def test_it_samples_what_the_prefix_says_and_reads_back_what_it_wrote() -> None:
    mine = worker()
    done = mine.execute(plan(1, Entered("A", (1, 2, 1), ((1, 2),), 0), A=3), (), ("A",))
    assert texts(done) == []
    assert done.sampled == {"A": [Behaviour().next_token((1, 2, 1))]}
    done = mine.execute(plan(2, Continued("A", 3, 1, None, False, None), A=1), (), ("A",))
    assert texts(done) == []
    assert done.sampled["A"] == [Behaviour().next_token((1, 2, 1, Behaviour().next_token((1, 2, 1))))]


def test_a_chunk_of_a_prompt_samples_nothing() -> None:
    done = worker().execute(plan(1, Entered("A", (1, 2, 1), ((1,),), 0), A=2), (), ("A",))
    assert done.sampled == {"A": []}


def test_a_hit_on_a_batch_mate_is_legal() -> None:
    rows = Entered("A", (1, 2, 1), ((1, 2),), 0), Entered("B", (1, 2, 2), ((1, 3),), 2)
    assert texts(worker().execute(plan(1, *rows, A=3, B=1), (), ("A", "B"))) == []


def test_a_hit_on_what_nobody_wrote_is_misread() -> None:
    done = worker().execute(plan(1, Entered("A", (1, 2, 1), ((1, 2),), 2), A=1), (), ("A",))
    assert texts(done) == [("MEM-1", "A reads position 0 in block 1: [1] is due, it holds nothing")]


def test_a_hit_on_other_tokens_is_misread() -> None:
    mine = worker()
    mine.execute(plan(1, Entered("A", (1, 2, 1), ((1, 2),), 0), A=3), (), ("A",))
    done = mine.execute(plan(2, Entered("B", (1, 1, 2), ((1, 3),), 2), B=1), (), ("B",))
    assert texts(done) == [("MEM-1", "B reads position 1 in block 1: [1 1] is due, it holds [1 2]")]


def test_groups_are_told_apart() -> None:
    mine = worker(engine(FULL, WINDOW))
    mine.execute(plan(1, Entered("A", (1, 2), ((1,), (2,)), 0), A=2), (), ("A",))
    done = mine.execute(plan(2, Entered("B", (1, 2, 2), ((2, 3), (1, 4)), 2), B=1), (), ("B",))
    assert [law_id for law_id, _ in texts(done)] == ["MEM-1"]
    assert "of group 1" in texts(done)[0][1]


def test_a_window_reads_no_further_back() -> None:
    tables = ((0, 0, 5),)
    mine = worker(engine(WINDOW))
    mine.execute(plan(1, Entered("A", (1, 1, 1, 1, 1), ((1, 2, 5),), 0), A=5), (), ("A",))
    assert texts(mine.execute(plan(2, Entered("A", (1,) * 6, ((0, 2, 5),), 5), A=1), (), ("A",))) == []
    done = mine.execute(plan(3, Entered("A", (1,) * 6, tables, 5), A=1), (), ("A",))
    assert texts(done) == [("MEM-1", "A reads position 3, which has no slot in [0, 0, 5]")]


def test_two_requests_must_not_write_one_slot() -> None:
    rows = Entered("A", (1, 2), ((1,),), 0), Entered("B", (1, 1), ((1,),), 0)
    done = worker().execute(plan(1, *rows, A=2, B=2), (), ("A", "B"))
    assert ("MEM-3", "A and B are both written to slot 0 of block 1") in texts(done)


def test_a_token_that_is_not_there_cannot_be_scheduled() -> None:
    done = worker().execute(plan(1, Entered("A", (1, 2), ((1, 2),), 0), A=3), (), ("A",))
    assert texts(done) == [("SCHED-1", "A is scheduled up to position 2 and has 2 tokens")]


@pytest.mark.parametrize(("miss", "rejected"), [(0, 0), (100, 2)])
def test_drafts_are_accepted_up_to_the_first_miss(miss: int, rejected: int) -> None:
    config, behaviour = engine(num_drafts=2), Behaviour(miss_percent=miss)
    mine = worker(config, A=behaviour)
    first = mine.execute(plan(1, Entered("A", (1, 2), ((1, 2, 3),), 0), A=2), (), ("A",))
    row = Continued("A", 2, 1, None, False, None)
    done = mine.execute(plan(2, row, drafts={"A": first.drafts["A"]}, A=3), (), ("A",))
    assert (done.rejected_drafts, done.accepted_drafts) == (rejected, 2 - rejected)
    assert len(done.sampled["A"]) == 3 - rejected
    tokens = [1, 2, *first.sampled["A"]]
    for token in done.sampled["A"]:
        assert token == behaviour.next_token(tokens)
        tokens.append(token)


def test_a_plan_made_ahead_counts_drafts_that_were_rejected() -> None:
    config, behaviour = engine(asynchronous=True, num_drafts=1), Behaviour(miss_percent=100)
    mine = worker(config, A=behaviour)
    mine.execute(plan(1, Entered("A", (1, 2), ((1, 2, 3),), 0), A=2), (), ("A",))
    second = mine.execute(plan(2, Continued("A", 2, 1, None, False, None), drafts={"A": [-1]}, A=2), (), ("A",))
    assert second.rejected_drafts == 1
    ahead = plan(3, Continued("A", 4, 3, None, False, None), drafts={"A": [-1]}, A=2)
    third = mine.execute(ahead, (second,), ("A",))
    assert texts(third) == []
    assert third.sampled["A"] == [behaviour.next_token([1, 2, *worker_tokens(behaviour, 2)])]


def worker_tokens(behaviour: Behaviour, number: int) -> list[int]:
    tokens = [1, 2]
    for _ in range(number):
        tokens.append(behaviour.next_token(tokens))
    return tokens[2:]


def test_a_load_gives_what_computing_would() -> None:
    order = LoadOrder("A", (1, 2, 1), 0, 2, ((1, 2),), False)
    done = worker().execute(with_load(plan(1, Entered("A", (1, 2, 1), ((1, 2),), 2), A=1), order), (), ("A",))
    assert (texts(done), done.failed) == ([], [])


def test_what_is_computed_from_a_failed_load_is_garbage_and_is_told_wrong() -> None:
    mine = worker(A=Behaviour(fails_at=0))
    order = LoadOrder("A", (1, 2, 1), 0, 2, ((1, 2),), False)
    done = mine.execute(with_load(plan(1, Entered("A", (1, 2, 1), ((1, 2),), 2), A=1), order), (), ("A",))
    assert (done.failed, done.invalid_blocks, done.garbage) == (["A"], {1}, {"A"})
    assert done.sampled["A"] != [Behaviour().next_token((1, 2, 1))]
    assert mine.unsettled([done]) == {1, 2}


def test_an_asynchronous_load_is_done_after_its_latency() -> None:
    mine = worker(A=Behaviour(latency=1))
    order = LoadOrder("A", (1, 2, 1), 0, 2, ((1, 2),), True)
    assert mine.execute(with_load(plan(1), order), (), ()).received == []
    assert mine.loading
    assert mine.execute(plan(2), (), ()).received == ["A"]
    assert texts(mine.execute(plan(3, Entered("A", (1, 2, 1), ((1, 2),), 2), A=1), (), ("A",))) == []


def test_a_load_must_not_touch_what_a_step_in_flight_writes() -> None:
    mine = worker()
    flying = mine.execute(plan(1, Entered("A", (1, 2), ((1,),), 0), A=2), (), ("A",))
    order = LoadOrder("B", (1, 1, 1), 0, 2, ((1,),), True)
    done = mine.execute(with_load(plan(2), order), (flying,), ())
    assert texts(done) == [
        ("MEM-1", "block 1 is loaded into for B while a step in flight still writes it for A"),
    ]
