"""The Hypothesis machine has a rule for each verb, passes a sound target and shrinks what it finds on a broken one."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from slotproof.conformance.actions import VERBS
from slotproof.conformance.adapter import RequestView
from slotproof.conformance.machine import state_machine
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.violation import Violation

SETTINGS = settings(
    max_examples=150,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)


class KeepsWhatItFrees(ReferenceAdapter):
    """Says nothing and does nothing when a request ends."""

    def free(self, request: RequestView) -> None:
        pass


def test_the_machine_has_a_rule_for_each_verb() -> None:
    plain, partial = (
        {name for name in dir(state_machine(ReferenceAdapter, groups)) if name.startswith("do_")}
        for groups in ("full", "partial")
    )
    assert partial == {f"do_{verb.name}" for verb in VERBS}
    assert plain == partial - {"do_copied"}


@pytest.mark.parametrize("groups", ["full", "window", "full,window", "partial"])
def test_a_sound_target_passes(groups: str) -> None:
    run_state_machine_as_test(state_machine(ReferenceAdapter, groups), settings=SETTINGS)


def test_a_broken_target_fails_with_a_short_trace() -> None:
    with pytest.raises(Violation) as caught:
        run_state_machine_as_test(state_machine(KeepsWhatItFrees), settings=SETTINGS)
    assert caught.value.law_ids[0] == "FREE-1"
    calls = [line for line in caught.value.__notes__ if line.startswith(("admit", "free", "extend", "output"))]
    assert len(calls) <= 4
    assert calls[-1].split()[0] == "free"
