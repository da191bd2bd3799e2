"""The laws of schedulers on views made by hand: what each objects to, and that it keeps quiet otherwise."""

from dataclasses import replace
from typing import Any

from slotproof.conformance.scheduler_adapter import CachedKey, EngineConfig, KvEvent, Plan, RequestState, View
from slotproof.conformance.scheduler_laws import (
    LAW_IDS,
    MOST_OVERTAKINGS,
    History,
    event_objections,
    overtaking_objections,
    plan_objections,
    poison_objections,
    pool_objections,
    preemption_objections,
    waiting_objections,
)
from slotproof.conformance.worker import Memory
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.laws import BY_ID

CONFIG = EngineConfig(Config(4, (FullAttention(1),), 4, 8), max_num_seqs=2, max_num_batched_tokens=2)


def state(status: str = "WAITING", computed: int = 0, *, blocked: bool = False) -> RequestState:
    return RequestState(status, computed, 3, blocked)


def view(**changes: Any) -> View:
    """Block 1 is A's, blocks 2 and 3 are free; B and C wait."""
    right = View(
        requests={"A": state("RUNNING", 1), "B": state(), "C": state()},
        running=["A"],
        waiting=["B", "C"],
        tables={"A": [[1]]},
        refs=[0, 1, 0, 0],
        queue=[2, 3],
        num_free=2,
        keyed=[],
        deferred=[],
        has_work=True,
    )
    return replace(right, **changes)


def plan(**scheduled: int) -> Plan:
    return Plan(1, scheduled, {}, (), (), (), ())


def ids(objections: Any) -> list[str]:
    return [objection.law_id for objection in objections]


def test_every_law_is_on_the_list() -> None:
    assert set(LAW_IDS) <= set(BY_ID)


def test_pool_laws_on_the_real_pool() -> None:
    assert ids(pool_objections(CONFIG, view())) == []
    assert "POOL-1" in ids(pool_objections(CONFIG, view(queue=[2, 2])))
    assert "POOL-2" in ids(pool_objections(CONFIG, view(refs=[0, 2, 0, 0])))
    assert "POOL-3" in ids(pool_objections(CONFIG, view(queue=[0, 2, 3])))
    assert "POOL-4" in ids(pool_objections(CONFIG, view(num_free=1)))
    assert "LEAK-1" in ids(pool_objections(CONFIG, view(requests={"B": state(), "C": state()}, running=[])))
    assert ids(pool_objections(CONFIG, view(tables={}, deferred=[[1]]))) == []


def test_a_step_is_within_budget_and_runs() -> None:
    assert ids(plan_objections(CONFIG, plan(), view(), view())) == []
    assert "SCHED-1" in ids(plan_objections(CONFIG, plan(A=3), view(), view()))
    assert "SCHED-1" in ids(plan_objections(CONFIG, plan(B=1), view(), view()))
    crowded = view(running=["A", "B", "C"])
    assert "SCHED-1" in ids(plan_objections(CONFIG, plan(), view(), crowded))


def test_a_victim_gives_its_blocks_back() -> None:
    requests = {"A": state("PREEMPTED"), "B": state(), "C": state()}
    gone = view(requests=requests, running=[], waiting=["A", "B", "C"], tables={})
    assert ids(preemption_objections(view(), gone)) == []
    assert ids(preemption_objections(view(), replace(gone, tables={"A": [[1]]}))) == ["SCHED-2"]
    assert ids(preemption_objections(view(), replace(gone, deferred=[[1]]))) == ["SCHED-2"]


def test_who_still_waits_is_as_before() -> None:
    assert ids(waiting_objections(view(), view())) == []
    assert ids(waiting_objections(view(), view(waiting=["C", "B"]))) == ["SCHED-3"]
    changed = {"A": state("RUNNING", 1), "B": state("WAITING", 2), "C": state()}
    assert ids(waiting_objections(view(), view(requests=changed))) == ["SCHED-3"]
    assert ids(waiting_objections(view(), view(tables={"A": [[1]], "B": [[2]]}))) == ["SCHED-3"]
    blocked = {"A": state("RUNNING", 1), "B": state("WAITING_FOR_REMOTE_KVS", 2, blocked=True), "C": state()}
    assert ids(waiting_objections(view(), view(requests=blocked))) == []


def test_a_head_is_not_overtaken_for_ever() -> None:
    history = History()
    after = view(running=["A", "C"], waiting=["B"])
    for _ in range(MOST_OVERTAKINGS):
        assert ids(overtaking_objections(view(), after, history)) == []
    assert ids(overtaking_objections(view(), after, history)) == ["SCHED-6"]
    admitted = view(running=["A", "B"], waiting=["C"])
    assert ids(overtaking_objections(view(), admitted, history)) == []
    assert ids(overtaking_objections(view(), after, history)) == []


def test_what_is_offered_holds_what_its_key_says() -> None:
    memory = Memory(CONFIG)
    offered = view(keyed=[CachedKey(1, 0, (1, 2))])
    assert ids(poison_objections(offered, memory, set())) == ["SCHED-4"]
    assert ids(poison_objections(offered, memory, {1})) == []
    memory.write((1, 0), memory.contents(0, (1, 2))[1])
    assert ids(poison_objections(offered, memory, set())) == []


def test_events_replayed_give_the_index() -> None:
    history = History()
    offered = view(keyed=[CachedKey(1, 0, (1,)), CachedKey(2, 0, (1,))])
    history.replay([KvEvent("stored", 0, (1,))])
    assert ids(event_objections(offered, history)) == ["EVENT-1"]
    history.replay([KvEvent("stored", 0, (1,)), KvEvent("stored", 0, (2,)), KvEvent("removed", 0, (2,))])
    assert ids(event_objections(offered, history)) == []
    history.replay([KvEvent("cleared", 0, ())])
    assert ids(event_objections(view(), history)) == []
