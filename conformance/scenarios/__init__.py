"""Nine scheduler changes that broke something, each as two policies and the small world that shows it.

They are worked examples to copy from: a policy is a value of `slotproof.spec.scheduler.Policy`, a change is
`replace(OLD, field=…)` or a function of your own in a field, and a world is a few jobs, a pool and the limits of a
step.

    slotproof diff --scenario S3
    slotproof diff my_module:OLD my_module:NEW --world my_module:WORLD
"""

from importlib import import_module

from slotproof.conformance.scenarios.scenario import Scenario

_FILES = (
    "s1_full_length_admission",
    "s2_reservation_gate",
    "s3_fenced_frees",
    "s4_next_chunk_admission",
    "s5_capped_count",
    "s6_skip_on_refusal",
    "s7_lowest_priority_victim",
    "s8_optimistic_window",
    "s9_side_queue",
)


def scenarios() -> dict[str, Scenario]:
    """The shipped scenarios by id."""
    found = [import_module(f"{__name__}.{name}").SCENARIO for name in _FILES]
    return {scenario.id: scenario for scenario in found}


__all__ = ["Scenario", "scenarios"]
