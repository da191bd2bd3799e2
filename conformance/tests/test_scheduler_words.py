"""The words of a trace: every number a decision rests on is there."""

from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_words import job_words, state_strip, turn_words, world_lines
from slotproof.conformance.scheduler_worlds import WORLDS, world_of
from slotproof.spec.scheduler import FCFS, SchedulerState, take_turn
from slotproof.spec.scheduler.turn import Aborted, Arrived, Happening, LoadDone, Processed, Scheduled


def told(world: World, *events: Happening) -> tuple[list[str], SchedulerState]:
    state, words = world.begin(), []
    for event in events:
        turn = take_turn(FCFS, state, event)
        words.append(turn_words(turn))
        state = turn.after
    return words, state


def test_failing_loads_and_sessions_in_words() -> None:
    world = world_of("in-step", "fatal", "sessions")
    words, _ = told(world, Arrived("A"), Scheduled(), Processed(failed=("A",)))
    assert words[1:] == [
        "schedule  ->  A is admitted with 1 token; 2 free",
        "process, the load of A failed  ->  A ends (failed); 4 free",
    ]
    lines = world_lines(world)
    assert lines[1].endswith(", a request ends with an error if its load fails")
    assert lines[2] == (
        "A: 3 tokens of prompt, 2 tokens of output, 2 of the prompt can be loaded in the step or fail to, "
        "then 2 tokens of input and 1 token of output"
    )


def test_a_session_between_turns_is_shown() -> None:
    _, state = told(WORLDS["sessions"], Arrived("C"), Scheduled(), Processed(), Scheduled(), Processed())
    assert state_strip(state).endswith("| running: - | waiting: - | between turns: C")


def test_a_run_in_words() -> None:
    words, _ = told(
        WORLDS["drafts"], Arrived("A"), Scheduled(), Processed(), Scheduled(), Processed({"A": 0}), Aborted("A")
    )
    assert words == [
        "arrive A",
        "schedule  ->  A is admitted with 3 tokens; 2 free",
        "process  ->  A has 4 tokens; 2 free",
        "schedule  ->  A runs with 3 tokens; 1 free",
        "process, accepting 0 of A  ->  A has 5 tokens; 1 free",
        "abort A  ->  A ends (aborted); 4 free",
    ]


def test_a_refusal_says_what_was_missing() -> None:
    words, _ = told(WORLDS["watermark"], Arrived("A"), Arrived("B"), Scheduled(), Processed(), Scheduled())
    assert words[2] == (
        "schedule  ->  A is admitted with 3 tokens; B is refused (all its tokens need 2 + 1 watermark, 2 free); 2 free"
    )


def test_the_strip_shows_pool_queues_loads_and_steps() -> None:
    _, state = told(WORLDS["loads"], Arrived("A"), Arrived("B"), Arrived("C"), Scheduled(), LoadDone("A"))
    assert state_strip(state) == "free: 4 | A: 1 | B: 2 3 | running: - | waiting: A (loaded) B (loading) C"
    _, state = told(WORLDS["ahead"], Arrived("A"), Scheduled(), Scheduled())
    assert state_strip(state).endswith("running: A | waiting: - | in flight: A:3 then A:1")


def test_a_world_in_words() -> None:
    lines = world_lines(WORLDS["loads"])
    assert lines[0] == "groups full, block size 2, 4 usable blocks, max_model_len 8, unhashed-first"
    assert lines[1] == "8 tokens a step, 1 in flight"
    assert lines[2] == "A: 3 tokens of prompt, 3 tokens of output, 2 of the prompt can be loaded"
    assert "lookahead 1" in world_lines(WORLDS["lookahead"])[1]
    (urgent,) = [job for job in WORLDS["priority"].scope.jobs if job.priority == 2]
    assert job_words(urgent) == "A: 3 tokens of prompt, 3 tokens of output, priority 2"
