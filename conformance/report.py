"""The outcome of a run: what was checked, what was reached, and why the rest was not."""

from dataclasses import dataclass, field
from typing import Any, cast

from slotproof.conformance.adapter import (
    OPTIONAL_CALLS,
    Adapter,
    AllocatesBatches,
    Commits,
    CopiesBlocks,
    EmitsEvents,
    Evicts,
    Foretells,
    LooksUp,
    Profile,
    Resets,
)
from slotproof.conformance.counterexample import Counterexample
from slotproof.conformance.observation import Window
from slotproof.conformance.plan import Plan
from slotproof.conformance.reach import CELLS, Cell, HitKind, Outcome, infeasible
from slotproof.conformance.scheduler_adapter import SchedulerAdapter
from slotproof.conformance.scheduler_laws import LAW_IDS
from slotproof.conformance.scheduler_reach import MODES, POLICIES, SITUATIONS, impossible
from slotproof.conformance.session import Tally
from slotproof.conformance.strictness import exempt, level_of
from slotproof.conformance.subject import is_scheduler
from slotproof.conformance.target import supported_parameters
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.laws import LAWS


@dataclass(frozen=True, slots=True)
class Found:
    """A counterexample as it crosses processes."""

    law_id: str
    fields: dict[str, Any]
    text: str
    pytest_file: str

    @classmethod
    def of(cls, example: Counterexample) -> "Found":
        """What is kept of a counterexample."""
        return cls(example.law_id, example.as_json(), example.text(), example.pytest_file())


@dataclass(slots=True)
class Report:
    """The outcome of a run."""

    plan: Plan
    profile: Profile
    facets: frozenset[str]
    parameters: tuple[str, ...]
    tally: Tally
    steps: int = 0
    seconds: float = 0.0
    found: list[Found] = field(default_factory=list)
    stale_deviations: tuple[str, ...] = ()
    skipped_settings: tuple[tuple[str, str], ...] = ()
    optional_calls: frozenset[str] = frozenset()
    of_scheduler: bool = False

    @property
    def conforms(self) -> bool:
        """Whether no law was broken, and every known deviation still shows."""
        return not self.found and not self.stale_deviations


CALL_BEHIND: dict[str, type] = {
    "CAN-1": Foretells,
    "EVENT-1": EmitsEvents,
    "EVICT-1": Evicts,
    "RESET-1": Resets,
    "LOOKUP-1": LooksUp,
    "HASH-2": Commits,
    "MEM-2": CopiesBlocks,
    "BATCH-1": AllocatesBatches,
}
"""Laws that need an optional call of the adapter."""

CALL_NAMES: dict[type, str] = {
    Foretells: "can_allocate",
    EmitsEvents: "take_events",
    Evicts: "evict",
    Resets: "reset_prefix_cache",
    LooksUp: "get_computed_blocks",
    Commits: "commit",
    CopiesBlocks: "take_copies",
    AllocatesBatches: "allocate_decode",
}

FACET_CALLS = {"refs": "ref_count", "keys": "cached_keys", "queue": "free_queue", "counters": "cached_counts"}


def new_report(plan: Plan, adapter: Adapter | SchedulerAdapter) -> Report:
    """An empty report that knows what the target offers."""
    if is_scheduler(adapter):
        return Report(plan, adapter.profile, frozenset(), (), Tally.fresh(), of_scheduler=True)
    adapter = cast(Adapter, adapter)
    facets = Window(adapter, Config(2, (FullAttention(1),), 1, 1)).facets
    calls = frozenset(call.__name__ for call in OPTIONAL_CALLS if isinstance(adapter, call))
    return Report(plan, adapter.profile, facets, supported_parameters(adapter), Tally.fresh(), optional_calls=calls)


def law_rows(report: Report) -> list[dict[str, Any]]:
    """One row a law: id, status, checks, reason."""
    violated = {found.law_id for found in report.found}
    violated.update(law_id for found in report.found for law_id in found.fields["also"])
    rows = []
    for law_id in LAW_IDS if report.of_scheduler else [law.id for law in LAWS]:
        checks = report.tally.checks[law_id]
        status = "violated" if law_id in violated else "held" if checks else "skipped"
        reason = skip_reason(law_id, report) if status == "skipped" else ""
        rows.append({"id": law_id, "status": status, "checks": checks, "reason": reason})
    return rows


def skip_reason(law_id: str, report: Report) -> str:
    """Why a law was not checked at all."""
    profile = report.profile
    if report.plan.law_ids and law_id not in report.plan.law_ids:
        return "not among the laws asked for"
    if report.of_scheduler:
        return "nothing in this run was its business"
    law = next(law for law in LAWS if law.id == law_id)
    if level_of(law.id) > profile.strictness:
        return f"held from strictness {level_of(law.id).name.lower()} on"
    excuse = exempt(law.id, profile)
    if excuse is not None:
        return excuse
    call = CALL_BEHIND.get(law.id)
    if call is not None and call.__name__ not in report.optional_calls:
        return f"the adapter has no {CALL_NAMES[call]}"
    missing = sorted(law.needs - report.facets)
    if missing:
        return f"the adapter has no {FACET_CALLS[missing[0]]}"
    if law.id == "REFUSE-3":
        return "a bare None does not say whether waiting can help"
    return "nothing in this run was its business"


def situation_rows(report: Report) -> list[dict[str, Any]]:
    """One row a situation of a scheduler, mode and policy, and how often it was met."""
    met = report.tally.situations
    return [
        {
            "situation": situation,
            "mode": mode,
            "policy": policy,
            "count": met[situation, mode, policy],
            "excluded_by": impossible(situation, mode),
        }
        for situation in SITUATIONS
        for mode in MODES
        for policy in POLICIES
    ]


def reach_rows(report: Report) -> list[dict[str, Any]]:
    """One row a cell: the situation, how often it was exercised, and what excludes it."""
    if report.of_scheduler:
        return situation_rows(report)
    return [
        {
            "outcome": cell.outcome.value,
            "status": cell.status.value,
            "hit": cell.hit.value,
            "lookahead": cell.lookahead,
            "boundary": cell.boundary.value,
            "count": report.tally.reach[cell],
            "excluded_by": infeasible(cell) or out_of_reach(cell, report) or "",
        }
        for cell in CELLS
    ]


def out_of_reach(cell: Cell, report: Report) -> str | None:
    """What the target lacks to get into a situation."""
    if cell.lookahead and "num_lookahead_tokens" not in report.parameters:
        return "the target has no num_lookahead_tokens"
    if cell.outcome == Outcome.WHOLE_PROMPT and "full_sequence_must_fit" not in report.parameters:
        return "the target has no full_sequence_must_fit"
    if cell.hit != HitKind.NONE and not any(settings.caching for settings in report.plan.settings):
        return "caching is off"
    if cell.hit != HitKind.NONE and report.profile.lookup == "none":
        return "the target has no prefix cache"
    return None


def report_json(report: Report) -> dict[str, Any]:
    """The fields of `slotproof verify --json`."""
    plan = report.plan
    return {
        "target": plan.target,
        "target_version": report.profile.version,
        "seed": plan.seed,
        "strictness": report.profile.strictness.name.lower(),
        "config": {
            "groups": [settings.groups for settings in plan.settings],
            "skipped_groups": [{"groups": groups, "reason": reason} for groups, reason in report.skipped_settings],
            "caching": plan.settings[0].caching,
            "block_size": plan.settings[0].block_size,
            "blocks": plan.settings[0].num_blocks,
            "free_order": plan.settings[0].free_order,
        },
        "verdict": "conforms" if report.conforms else "violates",
        "laws": law_rows(report),
        "reach": reach_rows(report),
        "rejected_drafts": report.tally.rejected_drafts,
        "deviations": [
            {
                "id": deviation.id,
                "law": deviation.law,
                "reason": deviation.reason,
                "link": deviation.link,
                "count": report.tally.deviations[deviation.id],
                "status": "stale" if deviation.id in report.stale_deviations else "shown",
            }
            for deviation in plan.deviations
        ],
        "steps": report.steps,
        "seconds": round(report.seconds, 2),
        "counterexample": report.found[0].fields if report.found else None,
        "counterexamples": [found.fields for found in report.found],
    }
