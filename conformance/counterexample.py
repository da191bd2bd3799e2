"""The counterexample a user reads: numbered calls, the pool before and after the bad one, the law in words, and how to
run it again.
"""

import json
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.engine import Engine
from slotproof.conformance.replay import Failure
from slotproof.conformance.scheduler_adapter import EngineConfig, SchedulerAdapter
from slotproof.conformance.scheduler_laws import snapshot_of
from slotproof.conformance.scheduler_trace import SchedulerTrace, engine_words
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.subject import SCHEDULER
from slotproof.conformance.vector import Step, Vector, config_as_json
from slotproof.conformance.violation import Violation, answer_of
from slotproof.spec.config import Config
from slotproof.spec.laws import BY_ID
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Allocated, Event, LookedUp, Reset

REPLAY_FILE = "counterexample.json"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A shrunk failure with everything that is shown of it; `seed` is None where no seed led to it."""

    target: str
    version: str
    seed: int | None
    failure: Failure
    calls: tuple[str, ...]
    before: str
    after: str
    ids: str = ""
    """How the block ids that are shown differ from the target's own."""

    @property
    def law_id(self) -> str:
        """The law that is broken."""
        return self.failure.violation.law_id

    @property
    def replay_command(self) -> str:
        """One line that shows it again."""
        return f"slotproof replay {REPLAY_FILE} {shlex.quote(self.target)}"

    def vector(self) -> Vector | SchedulerTrace:
        """The trace as a vector."""
        violation = self.failure.violation
        violates = {
            "law": violation.law_id,
            "target": self.target,
            "objection": violation.objection,
            "expected": violation.expected,
            "got": violation.got,
        }
        name = f"{violation.law_id} broken by {self.target}"
        source = "found by exploring" if self.seed is None else f"found by seed {self.seed}"
        if isinstance(self.failure.config, EngineConfig):
            return SchedulerTrace(name, self.failure.config, self.failure.actions, source, violates)
        steps = tuple(Step(action) for action in self.failure.actions)
        return Vector(name, (violation.law_id,), self.failure.config, steps, source, violates)

    def as_json(self) -> dict[str, object]:
        """The fields of `slotproof verify --json`."""
        violation = self.failure.violation
        return {
            "law": violation.law_id,
            "also": [law_id for law_id, _ in violation.others],
            "calls": list(self.calls),
            "objection": violation.objection,
            "expected": violation.expected,
            "got": violation.got,
            "replay": self.vector().as_json(),
        }

    def text(self) -> str:
        """At most about fifteen lines for a terminal."""
        violation = self.failure.violation
        also = f" (and {', '.join(law_id for law_id, _ in violation.others)})" if violation.others else ""
        seed = "" if self.seed is None else f", seed {self.seed}"
        lines = [
            f"{violation.law_id}{also} broken by {self.target} {self.version}{seed}",
            *(f"  {line}" for line in setting_words(self.failure.config, self.ids)),
            *(f"  {number}. {call}" for number, call in enumerate(self.calls, start=1)),
            f"  before  {self.before}",
            f"  after   {self.after}",
            f"  law     {BY_ID[violation.law_id].sentence}",
            f"  found   {violation.objection}",
        ]
        if violation.got not in (violation.objection, violation.expected):
            lines += [f"  expected {violation.expected}", f"  got      {violation.got}"]
        return "\n".join([*lines, f"  again   {self.replay_command}"])

    def pytest_file(self) -> str:
        """A test to paste: it fails until the law holds."""
        body = json.dumps(self.vector().as_json(), indent=4)
        name = self.law_id.lower().replace("-", "_")
        return (
            f'"""{self.law_id}: {BY_ID[self.law_id].sentence}"""\n\n'
            "import json\n\n"
            "from slotproof.conformance import check_vector\n\n"
            f'VECTOR = json.loads("""\n{body.replace(chr(92), chr(92) * 2)}\n""")\n\n\n'
            f"def test_{name}() -> None:\n"
            f'    check_vector(VECTOR, target="{self.target}")\n'
        )


def setting_words(config: Config | EngineConfig, ids: str = "") -> list[str]:
    """A configuration in a line, or two for an engine."""
    if isinstance(config, EngineConfig):
        return [config_words(config.pool), engine_words(config)]
    return [config_words(config) + (f"; {ids}" if ids else "")]


def narrate_engine(adapter: SchedulerAdapter, target: str, seed: int | None, failure: Failure) -> Counterexample:
    """Carry a scheduler's failure out once more, and write down what came of each action."""
    engine, calls, before = Engine(adapter, failure.config, Tally.fresh()), [], ""
    for action in failure.actions:
        before = pool_strip(snapshot_of(engine.config, engine.view))
        engine.answers.clear()
        with suppress(Violation):
            SCHEDULER.perform(engine, action)
        calls.append(outcome_words(engine, action))
    after = pool_strip(snapshot_of(engine.config, engine.view))
    return Counterexample(target, adapter.profile.version, seed, failure, tuple(calls), before, after)


def narrate(adapter: Any, target: str, seed: int | None, failure: Failure) -> Counterexample:
    """Carry a failure out once more, and write down what each call answered."""
    if isinstance(failure.config, EngineConfig):
        return narrate_engine(adapter, target, seed, failure)
    session = Session(adapter, failure.config, Tally.fresh())
    calls: list[str] = []
    before = after = session.snapshot
    for action in failure.actions:
        before = session.snapshot
        session.answers.clear()
        try:
            perform(session, action)
        except Violation as violation:
            # The violation may be about an earlier step of the action than its last one.
            if violation.transition is not None:
                before = violation.transition.before
        after = session.snapshot
        calls.append(outcome_words(session, action))
    ids = "block ids are the target's own plus 1" if adapter.profile.null_block is None else ""
    strips = pool_strip(before), pool_strip(after)
    return Counterexample(target, adapter.profile.version, seed, failure, tuple(calls), *strips, ids)


def outcome_words(side: Session | Engine, action: Action) -> str:
    """An action, and what came of it."""
    if isinstance(side, Session):
        return call_words(action, side.answers, side.snapshot)
    return f"{action}  ->  {', '.join([*side.answers, f'{side.view.num_free} free'])}"


def call_words(action: Action, answers: list[Event], after: Snapshot) -> str:
    """An action and what came of it."""
    words = []
    for event in answers:
        if isinstance(event, LookedUp) and event.hit.num_tokens:
            words.append(f"hit {event.hit.num_tokens} tokens")
        elif isinstance(event, Allocated):
            words.append("refused" if event.answer is None else f"new {_blocks(event)}")
        elif isinstance(event, Reset):
            words.append(answer_of(event))
    return f"{action}  ->  {', '.join([*words, f'{after.pool.num_free()} free'])}"


def _blocks(event: Allocated) -> str:
    assert event.answer is not None
    count = sum(len(blocks) for blocks in event.answer)
    return f"{count} block" + ("" if count == 1 else "s")


def config_words(config: Config) -> str:
    """A configuration in one line."""
    fields = config_as_json(config)
    blocks = f"{config.usable_blocks} usable block" + ("" if config.usable_blocks == 1 else "s")
    words = f"groups {','.join(fields['groups'])}, block size {config.block_size}, {blocks}"
    words += f", hits end at every {config.hash_unit} tokens" if config.has_partial_hits else ""
    words += f", max_model_len {config.max_model_len}, {config.free_order.value}"
    if config.watermark_blocks:
        words += f", watermark {config.watermark_blocks}"
    return words if config.caching else f"{words}, caching off"


def pool_strip(snapshot: Snapshot) -> str:
    """The free queue, then every request's blocks a group: `*` marks a keyed block, `.` the null block."""

    def cell(block: int) -> str:
        if block == NULL_BLOCK:
            return "."
        return f"{block}{'*' if snapshot.pool.keys[block] != NO_KEY else ''}"

    queue = " ".join(cell(block) for block in snapshot.pool.queue) or f"{snapshot.pool.num_free()} blocks"
    strips = [f"free: {queue}"]
    for name, holding in snapshot.holdings.items():
        tables = " / ".join(" ".join(cell(block) for block in table.entries) or "-" for table in holding.tables)
        strips.append(f"{name}: {tables}")
    strips += [f"deferred: {' '.join(cell(block) for block in run)}" for run in snapshot.waiting_frees]
    return " | ".join(strips)
