"""The reference scheduler, one behaviour a test: what each pass decides, and what happens around it."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from slotproof.spec import Config, FullAttention, Status
from slotproof.spec.scheduler import FCFS, PRIORITY, VLLM_FCFS, Job, Policy, SchedulerState, Scope, start, take_turn
from slotproof.spec.scheduler.ending import at_once
from slotproof.spec.scheduler.move import Kind
from slotproof.spec.scheduler.policy import always, in_queue_order, keep_turn, next_chunk, reserved_from_loads, skip
from slotproof.spec.scheduler.preemption import withdraw_nothing, withdraw_tokens
from slotproof.spec.scheduler.schedule import AllocatorRaised
from slotproof.spec.scheduler.state import Outcome
from slotproof.spec.scheduler.turn import (
    Aborted,
    Arrived,
    CacheReset,
    Happening,
    InputCame,
    LoadDone,
    LoadFailed,
    Processed,
    Scheduled,
    Turn,
    happenings,
)


class Engine:
    """A scheduler that is driven by hand; blocks hold 2 tokens."""

    def __init__(self, policy: Policy, usable: int, *jobs: Job, caching: bool = True, **limits: Any) -> None:
        config = Config(usable + 1, (FullAttention(2),), 16, 16, limits.pop("watermark", 0), caching)
        self.policy, self.state = policy, start(Scope(config, jobs, limits.pop("budget", 16), **limits))

    def take(self, *events: Happening) -> Turn:
        for event in events:
            turn = take_turn(self.policy, self.state, event)
            self.state = turn.after
        return turn

    def arrive(self, names: str) -> None:
        self.take(*(Arrived(name) for name in names))

    def schedule(self) -> list[tuple[Kind, str, int]]:
        turn = self.take(Scheduled())
        return [(made.kind, made.request_id, made.num_tokens) for made in turn.decisions]

    def process(self, **accepted: int) -> Turn:
        return self.take(Processed(MappingProxyType(accepted)))

    def step(self) -> None:
        self.schedule()
        self.process()

    @property
    def free(self) -> int:
        return self.state.snapshot.pool.num_free()


def job(name: str, prompt: int, outputs: int = 1, **more: Any) -> Job:
    """Prompts of different names share nothing."""
    return Job(name, (ord(name), *((0,) * (prompt - 1))), (9,) * outputs, **more)


class TestRunningPass:
    def test_decodes_one_token_and_samples_the_next(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3, 3))
        engine.arrive("A")
        engine.step()
        assert engine.schedule() == [(Kind.RUN, "A", 1)]
        assert engine.state.requests["A"].num_tokens == 4

    def test_cuts_a_prompt_into_chunks_of_the_budget(self) -> None:
        engine = Engine(FCFS, 4, job("A", 5), budget=2)
        engine.arrive("A")
        chunks = []
        for _ in range(3):
            chunks += engine.schedule()
            engine.process()
        assert chunks == [(Kind.ADMIT, "A", 2), (Kind.RUN, "A", 2), (Kind.RUN, "A", 1)]
        assert engine.state.ended == {"A": Outcome.FINISHED}

    def test_a_chunk_has_a_limit_of_its_own(self) -> None:
        engine = Engine(FCFS, 4, job("A", 5), max_chunk=3)
        engine.arrive("A")
        assert engine.schedule() == [(Kind.ADMIT, "A", 3)]

    def test_schedules_drafts_behind_the_token_as_far_as_the_budget_goes(self) -> None:
        engine = Engine(FCFS, 6, job("A", 2, 6, num_drafts=3), budget=3)
        engine.arrive("A")
        engine.step()
        (entry,) = engine.take(Scheduled()).entries
        assert (entry.num_tokens, entry.num_drafts) == (3, 2)

    @pytest.mark.parametrize(("accepted", "num_tokens"), [(0, 4), (1, 5), (2, 6)])
    def test_accepted_drafts_become_final_and_rejected_ones_are_uncomputed(
        self, accepted: int, num_tokens: int
    ) -> None:
        engine = Engine(FCFS, 6, job("A", 2, 6, num_drafts=2))
        engine.arrive("A")
        engine.step()
        engine.schedule()
        engine.process(A=accepted)
        request = engine.state.requests["A"]
        assert (request.num_tokens, request.num_computed_tokens) == (num_tokens, num_tokens - 1)

    def test_preempts_the_last_and_retries(self) -> None:
        engine = Engine(FCFS, 2, job("A", 2, 2), job("B", 2, 2))
        engine.arrive("AB")
        engine.step()
        assert engine.schedule() == [(Kind.RUN_REFUSED, "A", 0), (Kind.PREEMPT, "B", 0), (Kind.RUN, "A", 1)]
        assert engine.state.requests["B"].status == Status.PREEMPTED
        assert engine.state.waiting == ("B",)

    def test_may_preempt_itself_and_goes_on_with_the_others(self) -> None:
        jobs = job("H", 2, 3, priority=0), job("L", 2, 3, priority=1)
        engine = Engine(replace(PRIORITY, order=in_queue_order), 2, jobs[1], jobs[0])
        engine.arrive("LH")
        engine.step()
        assert engine.schedule() == [(Kind.RUN_REFUSED, "L", 0), (Kind.PREEMPT, "L", 0), (Kind.RUN, "H", 1)]

    def test_nobody_is_admitted_in_a_step_that_preempts(self) -> None:
        engine = Engine(FCFS, 2, job("A", 2, 2), job("B", 2, 2), job("C", 1))
        engine.arrive("AB")
        engine.step()
        engine.arrive("C")
        kinds = [kind for kind, _, _ in engine.schedule()]
        assert Kind.ADMIT not in kinds

    def test_a_victim_in_flight_is_spared_and_the_pass_ends(self) -> None:
        engine = Engine(FCFS, 2, job("A", 2, 2), job("B", 2, 2), max_steps_in_flight=2)
        engine.arrive("AB")
        engine.schedule()
        assert engine.schedule() == [(Kind.RUN_REFUSED, "A", 0)]
        assert engine.state.running == ("A", "B")

    def test_a_request_alone_waits_for_a_load_instead_of_preempting_itself(self) -> None:
        jobs = job("A", 2, 2), job("P", 3, num_external_tokens=2)
        for policy, kinds in ((FCFS, [Kind.RUN_REFUSED]), (VLLM_FCFS, [Kind.RUN_REFUSED, Kind.PREEMPT])):
            engine = Engine(replace(policy, admission=next_chunk), 2, *jobs)
            engine.arrive("AP")
            engine.step()
            assert [kind for kind, _, _ in engine.schedule()] == kinds


class TestWithdrawal:
    """L is scheduled first; H, more urgent, is refused and takes its place."""

    def engine(self, **changes: Any) -> Engine:
        jobs = job("L", 4, 4, priority=1), job("H", 2, 3, priority=0)
        engine = Engine(replace(PRIORITY, **changes), 4, *jobs, budget=8, num_lookahead_tokens=0)
        engine.arrive("L")
        engine.step()
        engine.arrive("H")
        engine.step()
        return engine

    def test_tokens_return_to_the_budget_and_keys_are_taken_back(self) -> None:
        engine = self.engine()
        turn = engine.take(Scheduled())
        assert [entry.request_id for entry in turn.entries] == ["H"]
        assert not any(engine.state.snapshot.pool.key_of(block) == 2 for block in engine.state.snapshot.pool.keyed)

    def test_the_entry_of_a_victim_that_is_not_withdrawn_gets_no_output(self) -> None:
        engine = self.engine(withdraw=withdraw_nothing)
        turn = engine.take(Scheduled())
        assert [(entry.request_id, entry.stale) for entry in turn.entries] == [("L", True), ("H", False)]
        engine.process()
        assert engine.state.requests["L"].num_tokens == 6

    @pytest.mark.parametrize(("withdraw", "others"), [(withdraw_tokens, 4), (withdraw_nothing, 3)])
    def test_the_others_get_the_tokens_that_come_back(self, withdraw: Any, others: int) -> None:
        """L is scheduled with 1 of 4 tokens, then H is refused; X asks for 4."""
        jobs = job("L", 5, 2), job("H", 2, 2), job("X", 1, 5, num_drafts=3)
        policy = replace(FCFS, victim=lambda move, name: move.state.running[0], withdraw=withdraw)
        engine = Engine(policy, 5, *jobs, budget=4)
        engine.arrive("L")
        engine.step()
        engine.arrive("HX")
        engine.step()
        entries = engine.take(Scheduled()).entries
        assert sum(entry.num_tokens for entry in entries if entry.request_id != "L") == others


class TestWaitingPass:
    def test_admits_in_order_of_arrival_up_to_the_first_refusal(self) -> None:
        engine = Engine(FCFS, 3, job("A", 3), job("Z", 4), job("C", 1))
        engine.arrive("AZC")
        assert engine.schedule() == [(Kind.ADMIT, "A", 3), (Kind.REFUSE, "Z", 0)]

    def test_a_policy_may_skip_and_the_refused_request_is_overtaken(self) -> None:
        engine = Engine(replace(FCFS, on_refusal=skip), 3, job("A", 3), job("Z", 4), job("C", 1))
        engine.arrive("AZC")
        assert engine.schedule() == [(Kind.ADMIT, "A", 3), (Kind.REFUSE, "Z", 0), (Kind.ADMIT, "C", 1)]
        assert engine.state.overtaken == {"Z": 1}

    def test_the_more_urgent_request_goes_first(self) -> None:
        engine = Engine(PRIORITY, 4, job("A", 2, priority=5), job("B", 2, priority=1))
        engine.arrive("AB")
        assert [name for _, name, _ in engine.schedule()] == ["B", "A"]

    def test_what_can_never_fit_ends_with_an_error(self) -> None:
        engine = Engine(FCFS, 2, job("A", 6), job("B", 2))
        engine.arrive("AB")
        assert engine.schedule() == [(Kind.REFUSE, "A", 0), (Kind.END, "A", 0), (Kind.ADMIT, "B", 2)]
        assert engine.state.ended == {"A": Outcome.FAILED}

    def test_the_whole_prompt_must_fit_unless_the_policy_asks_for_the_chunk_alone(self) -> None:
        for policy, kind in ((FCFS, Kind.REFUSE), (replace(FCFS, admission=next_chunk), Kind.ADMIT)):
            engine = Engine(policy, 4, job("A", 4, 2), job("B", 6), budget=6)
            engine.arrive("AB")
            assert engine.schedule()[1][0] == kind

    def test_slots_of_running_requests_are_limited(self) -> None:
        engine = Engine(FCFS, 4, job("A", 1), job("B", 1), max_running=1)
        engine.arrive("AB")
        assert engine.schedule() == [(Kind.ADMIT, "A", 1)]

    def test_a_prompt_that_may_not_be_cut_waits_for_the_budget(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3), job("B", 3), budget=5, chunked_prefill=False)
        engine.arrive("AB")
        assert engine.schedule() == [(Kind.ADMIT, "A", 3)]

    def test_a_preempted_request_hits_what_it_left(self) -> None:
        engine = Engine(FCFS, 4, job("A", 2, 5), job("B", 4, 3))
        engine.arrive("AB")
        engine.step()
        engine.step()
        engine.state = replace(engine.state)
        while "B" not in engine.state.waiting:
            engine.step()
        while "B" in engine.state.waiting:
            engine.step()
        assert engine.state.requests["B"].num_computed_tokens > 4


class TestLoads:
    def test_a_load_parks_the_request_until_it_is_noticed(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3, num_external_tokens=2))
        engine.arrive("A")
        assert engine.schedule() == [(Kind.PARK, "A", 0)]
        assert engine.schedule() == []
        engine.take(LoadDone("A"))
        assert engine.schedule() == [(Kind.PROMOTE, "A", 0), (Kind.ADMIT, "A", 1)]

    def test_vllm_notices_only_when_the_waiting_pass_gets_there(self) -> None:
        for policy, noticed in ((FCFS, True), (VLLM_FCFS, False)):
            engine = Engine(policy, 4, job("P", 3, num_external_tokens=2), job("Z", 4), budget=2)
            engine.arrive("PZ")
            engine.step()
            engine.take(LoadDone("P"))
            assert ((Kind.PROMOTE, "P", 0) in engine.schedule()) == noticed

    def test_a_load_leaves_what_admitted_prompts_still_need(self) -> None:
        jobs = job("A", 6, num_external_tokens=2), job("B", 4, num_external_tokens=2)
        for policy, kind in ((FCFS, Kind.REFUSE), (replace(FCFS, reserved=lambda state, call: 0), Kind.PARK)):
            engine = Engine(policy, 3, *jobs)
            engine.arrive("AB")
            assert engine.schedule()[1] == (kind, "B", 0)
        assert FCFS.reserved is reserved_from_loads

    def test_blocks_of_an_aborted_load_come_back_when_it_is_done(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3, num_external_tokens=2))
        engine.arrive("A")
        engine.schedule()
        engine.take(Aborted("A"))
        assert (engine.free, engine.state.ended) == (3, {"A": Outcome.ABORTED})
        engine.take(LoadDone("A"))
        assert engine.free == 4


class TestLoadsInStep:
    """Request A has 2 of its 4 tokens loaded in the step that computes the others."""

    def engine(self, *more: Job, **limits: Any) -> Engine:
        loading = job("A", 4, 2, num_external_tokens=2, loads_in_step=True, load_may_fail=True)
        engine = Engine(FCFS, 6, loading, *more, **limits)
        engine.arrive("A")
        return engine

    def sharing(self, **limits: Any) -> Engine:
        """B begins as A does, and hits the loaded block."""
        return self.engine(Job("B", (ord("A"), 0, 5), (9, 9)), **limits)

    def test_the_step_loads_what_it_does_not_compute(self) -> None:
        engine = self.engine()
        assert engine.schedule() == [(Kind.ADMIT, "A", 2)]
        (entry,) = engine.state.steps[0]
        assert (entry.num_loaded, entry.start, entry.num_tokens) == (2, 2, 2)
        engine.process()
        assert engine.state.requests["A"].num_tokens == 5
        assert engine.state.memory[1] == ((65,), (65, 0))

    def test_loaded_tokens_cost_no_budget(self) -> None:
        engine = self.engine(budget=2)
        assert engine.schedule() == [(Kind.ADMIT, "A", 2)]

    def test_a_failed_load_is_computed_and_not_tried_again(self) -> None:
        engine = self.engine()
        engine.schedule()
        turn = engine.take(Processed(failed=("A",)))
        assert [made.kind for made in turn.decisions] == [Kind.PREEMPT]
        assert (engine.free, engine.state.snapshot.pool.keyed) == (6, ())
        assert engine.schedule() == [(Kind.ADMIT, "A", 4)]
        assert engine.state.preempted == {}

    def test_a_failed_load_ends_the_request_where_that_is_the_rule(self) -> None:
        engine = self.sharing(fails_with_load=True)
        engine.arrive("B")
        engine.schedule()
        engine.take(Processed(failed=("A",)))
        assert engine.state.ended == {"A": Outcome.FAILED}
        assert engine.state.waiting == ("B",)

    def test_who_shares_a_failed_block_begins_anew_too(self) -> None:
        engine = self.sharing()
        engine.arrive("B")
        assert engine.schedule() == [(Kind.ADMIT, "A", 2), (Kind.ADMIT, "B", 1)]
        turn = engine.take(Processed(failed=("A",)))
        assert [(made.kind, made.request_id) for made in turn.decisions] == [(Kind.PREEMPT, "B"), (Kind.PREEMPT, "A")]
        assert engine.state.waiting == ("A", "B")
        assert engine.state.requests["B"].num_tokens == 3

    def test_who_shares_nothing_goes_on(self) -> None:
        engine = self.engine(job("C", 2, 2))
        engine.arrive("C")
        engine.schedule()
        engine.take(Processed(failed=("A",)))
        assert (engine.state.running, engine.state.waiting) == (("C",), ("A",))
        assert engine.state.requests["C"].num_tokens == 3

    def test_a_step_ahead_is_not_trusted_with_what_failed(self) -> None:
        engine = self.engine(max_steps_in_flight=2)
        engine.schedule()
        engine.schedule()
        engine.take(Processed(failed=("A",)))
        ((entry,),) = engine.state.steps
        assert (entry.stale, entry.num_final) == (True, 0)
        engine.process()
        assert engine.state.requests["A"].num_tokens == 4

    def test_an_aborted_request_leaves_no_failed_block_behind(self) -> None:
        engine = self.engine(may_abort=("A",))
        engine.schedule()
        engine.take(Aborted("A"))
        assert engine.state.snapshot.pool.keyed
        engine.take(Processed(failed=("A",)))
        assert (engine.free, engine.state.snapshot.pool.keyed) == (6, ())


class TestFailedLoads:
    """Beside the steps."""

    def engine(self, **limits: Any) -> Engine:
        engine = Engine(FCFS, 6, job("A", 4, num_external_tokens=2, load_may_fail=True), **limits)
        engine.arrive("A")
        engine.schedule()
        return engine

    def test_the_request_is_computed_instead(self) -> None:
        engine = self.engine()
        engine.take(LoadFailed("A"))
        assert (engine.free, engine.state.unloadable) == (6, ("A",))
        assert engine.schedule() == [(Kind.ADMIT, "A", 4)]

    def test_or_it_ends(self) -> None:
        engine = self.engine(fails_with_load=True)
        engine.take(LoadFailed("A"))
        assert (engine.free, engine.state.ended) == (6, {"A": Outcome.FAILED})

    def test_an_aborted_request_ends_with_its_load(self) -> None:
        engine = self.engine(may_abort=("A",))
        engine.take(Aborted("A"), LoadFailed("A"))
        assert (engine.free, engine.state.ended) == (6, {"A": Outcome.ABORTED})

    def test_a_load_behind_a_failed_block_is_no_good(self) -> None:
        first = job("A", 4, num_external_tokens=2, loads_in_step=True, load_may_fail=True)
        second = Job("B", (ord("A"), 0, 5, 5, 5), (9,), num_external_tokens=4)
        engine = Engine(FCFS, 6, first, second)
        engine.arrive("AB")
        assert engine.schedule() == [(Kind.ADMIT, "A", 2), (Kind.PARK, "B", 0)]
        engine.take(Processed(failed=("A",)))
        assert engine.state.spoiled == ("B",)
        engine.take(LoadDone("B"))
        assert (engine.state.loaded, engine.state.spoiled, engine.free) == ((), (), 6)


class TestSessions:
    """A session of two turns: 3 tokens and 2 outputs, then 2 tokens in the place of the last output, and one more."""

    def engine(self, policy: Policy = FCFS) -> Engine:
        session = Job("A", (1, 2, 3), (4, 5), followups=(((6, 7), (8,)),))
        engine = Engine(policy, 6, session)
        engine.arrive("A")
        engine.step()
        return engine

    def test_a_turn_ends_and_gives_its_blocks_back(self) -> None:
        engine = self.engine()
        engine.schedule()
        turn = engine.process()
        assert [made.kind for made in turn.decisions] == [Kind.PAUSE]
        assert (engine.state.paused, engine.free, engine.state.ended) == (("A",), 6, {})
        assert InputCame("A") in happenings(engine.state)
        assert Arrived("A") not in happenings(engine.state)

    def test_the_next_turn_begins_without_the_last_token(self) -> None:
        engine = self.engine()
        engine.step()
        engine.take(InputCame("A"))
        assert engine.state.requests["A"].token_ids == (1, 2, 3, 4, 6, 7)
        assert engine.schedule() == [(Kind.ADMIT, "A", 2)], "what the first turn computed is hit"
        engine.process()
        assert engine.state.ended == {"A": Outcome.FINISHED}

    def test_a_session_that_keeps_its_blocks_goes_on_with_them(self) -> None:
        engine = self.engine(replace(FCFS, between_turns=keep_turn))
        engine.step()
        assert engine.free == 4
        engine.take(InputCame("A"))
        assert engine.state.requests["A"].num_computed_tokens == 4
        assert engine.schedule() == [(Kind.ADMIT, "A", 2)]
        engine.process()
        assert (engine.free, engine.state.ended) == (6, {"A": Outcome.FINISHED})

    @pytest.mark.parametrize("followups", [(((), (1,)),), (((1,), ()),)])
    def test_a_turn_has_input_and_output(self, followups: Any) -> None:
        with pytest.raises(ValueError, match="an input of a session and its outputs have at least one token each"):
            Job("A", (1,), (1,), followups=followups)


class TestResets:
    def test_what_runs_is_set_back_in_its_order(self) -> None:
        engine = Engine(FCFS, 6, job("A", 2, 3), job("B", 2, 3), may_reset_running=True)
        engine.arrive("AB")
        engine.step()
        assert CacheReset(preempt_running=True) in happenings(engine.state)
        engine.take(CacheReset(preempt_running=True))
        assert (engine.state.running, engine.state.waiting) == ((), ("A", "B"))
        assert (engine.free, engine.state.snapshot.pool.keyed, engine.state.preempted) == (6, (), {})

    def test_it_is_refused_while_a_step_in_flight_still_writes(self) -> None:
        engine = Engine(FCFS, 6, job("A", 2, 3), may_reset_running=True)
        engine.arrive("A")
        engine.schedule()
        engine.take(CacheReset(preempt_running=True))
        assert (engine.state.running, engine.state.waiting, engine.free) == ((), ("A",), 5)
        assert engine.state.snapshot.pool.keyed
        engine.process()
        assert engine.free == 6


class TestFences:
    def test_blocks_of_an_aborted_request_wait_for_its_step(self) -> None:
        for policy, free in ((FCFS, 3), (replace(FCFS, give_back=at_once), 4)):
            engine = Engine(policy, 4, job("A", 2, 3), max_steps_in_flight=2)
            engine.arrive("A")
            engine.schedule()
            engine.take(Aborted("A"))
            assert engine.free == free
            engine.process()
            assert engine.free == 4

    def test_the_fence_is_the_last_step_that_names_the_request(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3, 3), max_steps_in_flight=2)
        engine.arrive("A")
        engine.schedule()
        engine.schedule()
        engine.take(Aborted("A"))
        engine.process()
        assert engine.free == 2
        engine.process()
        assert engine.free == 4

    def test_a_step_frees_only_what_waited_for_it(self) -> None:
        engine = Engine(FCFS, 4, job("A", 2, 3), job("B", 2, 3), max_steps_in_flight=2, budget=2)
        engine.arrive("A")
        engine.schedule()
        engine.take(Arrived("B"), Aborted("A"))
        engine.schedule()
        engine.take(Aborted("B"))
        assert engine.state.fences == (1, 2)
        engine.process()
        assert (engine.free, engine.state.fences) == (3, (1,))

    def test_a_request_that_ends_while_a_later_step_runs_it_is_fenced(self) -> None:
        engine = Engine(FCFS, 4, job("A", 2, 1), max_steps_in_flight=2)
        engine.arrive("A")
        engine.schedule()
        engine.schedule()
        engine.process()
        assert (engine.state.ended, engine.free) == ({"A": Outcome.FINISHED}, 2)
        engine.process()
        assert engine.free == 4

    def test_a_preempted_request_gets_no_output_of_the_step_in_flight(self) -> None:
        engine = Engine(replace(FCFS, may_preempt=always), 2, job("A", 2, 2), job("B", 2, 2), max_steps_in_flight=2)
        engine.arrive("AB")
        engine.schedule()
        engine.schedule()
        engine.process()
        assert {name: request.num_tokens for name, request in engine.state.requests.items()} == {"A": 2, "B": 2}


class TestSurroundings:
    def test_a_reset_empties_the_cache_when_nothing_is_held(self) -> None:
        engine = Engine(FCFS, 4, job("A", 3))
        engine.arrive("A")
        engine.schedule()
        engine.take(CacheReset())
        assert engine.state.snapshot.pool.keyed
        engine.process()
        engine.take(CacheReset())
        assert not engine.state.snapshot.pool.keyed

    def test_a_job_comes_again_only_if_it_says_so(self) -> None:
        engine = Engine(FCFS, 4, job("A", 2), job("B", 2, again=True))
        engine.arrive("AB")
        engine.step()
        assert [event for event in happenings(engine.state) if isinstance(event, Arrived)] == [Arrived("B")]

    def test_what_may_happen_depends_on_what_is_in_flight(self) -> None:
        engine = Engine(FCFS, 4, job("A", 2, 4, num_drafts=2), may_abort=("A",))
        assert happenings(engine.state) == [Arrived("A")]
        engine.arrive("A")
        assert happenings(engine.state) == [Scheduled(), Aborted("A")]
        engine.step()
        engine.schedule()
        processed: list[Mapping[str, int]] = [
            event.accepted for event in happenings(engine.state) if isinstance(event, Processed)
        ]
        assert processed == [{"A": 0}, {"A": 1}, {"A": 2}]

    def test_an_allocator_that_raises_is_named(self) -> None:
        def broken(snapshot: object, call: object) -> Any:
            raise IndexError("no block")

        engine = Engine(replace(FCFS, allocate=broken), 4, job("A", 2))
        engine.arrive("A")
        with pytest.raises(AllocatorRaised, match="request A raised IndexError: no block"):
            engine.schedule()


class TestValues:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"prompt": ()}, "at least one token of prompt"),
            ({"outputs": ()}, "at least one token of prompt and one of output"),
            ({"num_external_tokens": 2}, "at least one of the 2 tokens"),
        ],
    )
    def test_an_impossible_job_is_refused(self, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Job(**{"name": "A", "prompt": (1, 2), "outputs": (3,), **fields})

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"jobs": (job("A", 2), job("A", 2))}, "give each one its own"),
            ({"token_budget": 0}, "use 1 or more"),
            ({"jobs": (job("A", 20),)}, "use a shorter job"),
        ],
    )
    def test_an_impossible_scope_is_refused(self, fields: dict[str, Any], message: str) -> None:
        config = Config(4, (FullAttention(2),), 16, 16)
        with pytest.raises(ValueError, match=message):
            Scope(**{"config": config, "jobs": (job("A", 2),), "token_budget": 4, **fields})

    def test_states_with_equal_keys_are_equal(self) -> None:
        scope = Scope(Config(4, (FullAttention(2),), 16, 16), (job("A", 2),), 4)
        first: SchedulerState = start(scope)
        again = take_turn(FCFS, first, Arrived("A")).after
        assert first.key() == start(scope).key()
        assert first.key() != again.key()
