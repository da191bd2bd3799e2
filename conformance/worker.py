"""The simulated worker: a model without arithmetic, whose KV memory remembers which exact prefix was written where.

It keeps its own tokens and block tables from what each plan says, as vLLM's model runner does, writes the prefix that
ends at each scheduled position into its slot, and then reads what attention would read. What it samples is a function
of the prefix alone, so that every output can be told beforehand.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slotproof.conformance.scheduler_adapter import STOP_TOKEN, Continued, EngineConfig, Entered, LoadOrder, Plan
from slotproof.spec.groups import SlidingWindow
from slotproof.spec.pool import NULL_BLOCK

Content = int
"""A name for one exact prefix in one group."""

BLANK: Content = -1
"""Nothing was written, or a load failed."""
GARBAGE: Content = -2
"""What is computed from a failed load."""

NO_TOKEN = 0
"""The draft a worker has not proposed; the model never samples it."""

Slot = tuple[int, int]
"""A block and a slot of it."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the model makes of one request: its choices, where it stops, which drafts it misses, how its load goes."""

    seed: int = 0
    stops_at: int = 0
    miss_percent: int = 0
    latency: int = 0
    fails_at: int | None = None

    def next_token(self, tokens: Sequence[int]) -> int:
        """The token after this prefix."""
        if len(tokens) == self.stops_at:
            return STOP_TOKEN
        return 1 + (self._dice("token", tokens) & 1)

    def draft(self, tokens: Sequence[int], number: int) -> list[int]:
        """So many drafts behind this prefix; some miss."""
        prefix, drafts = list(tokens), []
        for _ in range(number):
            token = self.next_token(prefix)
            if self._dice("draft", prefix) % 100 < self.miss_percent:
                token = 2 if token == 1 else 1
            drafts.append(token)
            prefix.append(token)
        return drafts

    def _dice(self, purpose: str, tokens: Sequence[int]) -> int:
        return zlib.crc32(bytes(tokens), zlib.crc32(purpose.encode(), self.seed))


@dataclass(slots=True)
class Known:
    """What the worker knows of a request."""

    tokens: list[int]
    num_prompt_tokens: int
    tables: list[list[int]]
    num_computed_tokens: int
    drafts: list[int] = field(default_factory=list)
    rejected: int = 0
    last_step: int = 0


@dataclass(frozen=True, slots=True)
class Objection:
    """What a law says against a step."""

    law_id: str
    text: str


class Read(NamedTuple):
    """A position of a request in a group, and the slot it is read from."""

    group: int
    position: int
    slot: Slot


@dataclass(slots=True)
class Executed:
    """What a step did: sampled tokens and drafts, the slots it read and wrote a request, and what is wrong with it."""

    number: int
    sampled: dict[str, list[int]] = field(default_factory=dict)
    drafts: dict[str, list[int]] = field(default_factory=dict)
    accepted_drafts: int = 0
    rejected_drafts: int = 0
    reads: dict[str, list[Read]] = field(default_factory=dict)
    writes: dict[str, set[Slot]] = field(default_factory=dict)
    received: list[str] = field(default_factory=list)
    invalid_blocks: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    garbage: set[str] = field(default_factory=set)
    objections: list[Objection] = field(default_factory=list)


class Memory:
    """The KV memory of all groups, and the names of what may stand in it."""

    def __init__(self, config: EngineConfig) -> None:
        self.block_size = config.pool.block_size
        self._slots = [[BLANK] * self.block_size for _ in range(config.pool.num_blocks)]
        self._names: dict[tuple[Content, int], Content] = {}
        self._prefixes: list[tuple[Content, int]] = []

    def contents(self, group: int, tokens: Sequence[int]) -> list[Content]:
        """What each position of these tokens is to hold in a group."""
        content, contents = self._name(BLANK, -1 - group), []
        for token in tokens:
            content = self._name(content, token)
            contents.append(content)
        return contents

    def write(self, slot: Slot, content: Content) -> None:
        """Put something into a slot."""
        self._slots[slot[0]][slot[1]] = content

    def read(self, slot: Slot) -> Content:
        """What a slot holds."""
        return self._slots[slot[0]][slot[1]]

    def words(self, content: Content) -> str:
        """The tokens of a prefix."""
        if content in (BLANK, GARBAGE):
            return "nothing" if content == BLANK else "what was computed from a failed load"
        tokens: list[str] = []
        while content != BLANK:
            content, token = self._prefixes[content]
            tokens.append(str(token))
        group = -1 - int(tokens.pop())
        return f"[{' '.join(reversed(tokens))}]" + (f" of group {group}" if group else "")

    def _name(self, parent: Content, token: int) -> Content:
        prefix = (parent, token)
        name = self._names.get(prefix)
        if name is None:
            name = self._names[prefix] = len(self._prefixes)
            self._prefixes.append(prefix)
        return name


class Worker:
    """Executes plans in order. `behaviours` say what the model makes of each request."""

    def __init__(self, config: EngineConfig, behaviours: Mapping[str, Behaviour]) -> None:
        self._config = config
        self._behaviours = behaviours
        self._known: dict[str, Known] = {}
        self._loading: list[tuple[int, LoadOrder]] = []
        self._tainted: set[int] = set()
        self.memory = Memory(config)

    @property
    def loading(self) -> bool:
        """Whether an asynchronous load is under way."""
        return bool(self._loading)

    def execute(self, plan: Plan, in_flight: Sequence[Executed], live: Sequence[str]) -> Executed:
        """Carry a step out. `in_flight` are the steps whose output the scheduler had not seen when it planned, `live`
        the requests that run.
        """
        done = Executed(plan.number)
        self._tainted = self.unsettled(in_flight)
        self._learn(plan, bool(in_flight))
        self._start_loads(plan, in_flight, live, done)
        for name, count in plan.scheduled.items():
            self._compute(plan, name, count, done)
        for name, reads in done.reads.items():
            self._attend(name, reads, done)
        self._sample(plan, done)
        self._finish_loads(plan.number, done)
        return done

    # What the plan says.

    def _learn(self, plan: Plan, ahead: bool) -> None:
        for name in plan.finished:
            self._known.pop(name, None)
        for new in plan.entered:
            self._known[new.request_id] = _met(new)
        for row in plan.continued:
            self._update(self._known[row.request_id], row, plan.number, ahead)

    def _update(self, known: Known, row: Continued, number: int, ahead: bool) -> None:
        """A scheduler that plans ahead counts drafts as accepted until it hears otherwise; the worker knows better."""
        in_batch = known.last_step == number - 1 and not row.resumed
        known.num_computed_tokens = row.num_computed_tokens - (known.rejected if ahead and in_batch else 0)
        if row.tokens is not None and row.num_output_tokens and not in_batch and self._config.asynchronous:
            known.tokens = list(row.tokens)
        del known.tokens[known.num_prompt_tokens + row.num_output_tokens :]
        if row.resumed:
            known.tables = [list(blocks) for blocks in row.new_blocks or ()]
        else:
            for table, blocks in zip(known.tables, row.new_blocks or (), strict=False):
                table.extend(blocks)

    # Computing.

    def _compute(self, plan: Plan, name: str, count: int, done: Executed) -> None:
        """Write what a request computes, and note what it reads."""
        known = self._known[name]
        start, end = known.num_computed_tokens, known.num_computed_tokens + count
        inputs = known.tokens + self._drafts(plan, name, known)
        if start < 0:
            # Drafts of a step in flight were rejected, and the request was set back behind them meanwhile.
            done.objections.append(Objection("SCHED-1", f"{name} is scheduled from position {start}"))
            start = 0
        if len(inputs) < end:
            done.objections.append(
                Objection("SCHED-1", f"{name} is scheduled up to position {end - 1} and has {len(inputs)} tokens")
            )
            end = len(inputs)
        done.writes[name], done.reads[name] = set(), []
        garbage_from = self._first_invalid(known, start, done)
        if garbage_from < end:
            done.garbage.add(name)
        for group, table in enumerate(known.tables):
            contents = self.memory.contents(group, inputs[:end])
            for position in range(start, end):
                slot = self._slot(table, position)
                if slot is None:
                    done.objections.append(
                        Objection("MEM-1", f"{name} computes position {position}, which has no slot in {table}")
                    )
                    continue
                self._claim(name, slot, done)
                self.memory.write(slot, contents[position] if position < garbage_from else GARBAGE)
            for position in range(self._first_read(group, start), end):
                slot = self._slot(table, position)
                if slot is None:
                    done.objections.append(
                        Objection("MEM-1", f"{name} reads position {position}, which has no slot in {table}")
                    )
                elif position < garbage_from:
                    done.reads[name].append(Read(group, position, slot))
        known.drafts = inputs[len(known.tokens) : end]

    def _drafts(self, plan: Plan, name: str, known: Known) -> list[int]:
        given = plan.drafts.get(name, ())
        own = known.drafts if known.last_step == plan.number - 1 else []
        return [
            draft if draft >= 0 else own[index] if index < len(own) else NO_TOKEN for index, draft in enumerate(given)
        ]

    def _claim(self, name: str, slot: Slot, done: Executed) -> None:
        for other, slots in done.writes.items():
            if other != name and slot in slots:
                text = f"{other} and {name} are both written to slot {slot[1]} of block {slot[0]}"
                done.objections.append(Objection("MEM-3", text))
        done.writes[name].add(slot)

    def unsettled(self, steps: Iterable[Executed]) -> set[int]:
        """Blocks whose load failed, or that were computed from such a load, in steps the scheduler has not seen."""
        blocks: set[int] = set()
        for step in steps:
            blocks |= step.invalid_blocks
            blocks.update(block for name in step.garbage for block, _ in step.writes[name])
        return blocks

    def _first_invalid(self, known: Known, start: int, done: Executed) -> int:
        """The first position before `start` whose load has failed, in this step or in one in flight; what is computed
        behind it is garbage.
        """
        tainted = done.invalid_blocks | self._tainted
        size = self.memory.block_size
        invalid = [
            index * size
            for group, table in enumerate(known.tables)
            for index, block in enumerate(table)
            # Entries behind a window are stale: somebody else may have the block by now.
            if block in tainted and index * size < start and (index + 1) * size > self._first_read(group, start)
        ]
        return min(invalid, default=1 << 30)

    def _first_read(self, group: int, start: int) -> int:
        kind = self._config.pool.groups[group]
        return max(0, start - kind.window + 1) if isinstance(kind, SlidingWindow) else 0

    def _slot(self, table: Sequence[int], position: int) -> Slot | None:
        index, offset = divmod(position, self.memory.block_size)
        if index >= len(table) or table[index] == NULL_BLOCK:
            return None
        return table[index], offset

    def _attend(self, name: str, reads: Sequence[Read], done: Executed) -> None:
        """All writes of the step are done: each slot that is read must hold the request's own prefix."""
        known = self._known[name]
        due = [self.memory.contents(group, known.tokens + known.drafts) for group in range(len(known.tables))]
        for group, position, slot in reads:
            found = self.memory.read(slot)
            if found != due[group][position]:
                wanted, held = self.memory.words(due[group][position]), self.memory.words(found)
                text = f"{name} reads position {position} in block {slot[0]}: {wanted} is due, it holds {held}"
                done.objections.append(Objection("MEM-1", text))
                return

    # Sampling.

    def _sample(self, plan: Plan, done: Executed) -> None:
        for name, count in plan.scheduled.items():
            known, behaviour = self._known[name], self._behaviours[name]
            known.last_step, known.rejected = plan.number, 0
            drafts, known.drafts = known.drafts, []
            done.sampled[name] = []
            if known.num_computed_tokens + count < len(known.tokens):
                continue
            known.tokens, known.rejected = self._verified(known, behaviour, drafts, done.sampled[name])
            if name in done.garbage:
                # What garbage gives is nobody's to know; here, anything else.
                done.sampled[name] = [1 if token == 2 else 2 for token in done.sampled[name]]
            done.accepted_drafts += len(drafts) - known.rejected
            done.rejected_drafts += known.rejected
            if self._config.num_drafts:
                known.drafts = behaviour.draft(known.tokens, self._config.num_drafts)
                done.drafts[name] = list(known.drafts)

    def _verified(
        self, known: Known, behaviour: Behaviour, drafts: Sequence[int], sampled: list[int]
    ) -> tuple[list[int], int]:
        """The tokens after this step, and how many drafts it rejected."""
        tokens = list(known.tokens)
        for draft in drafts:
            sampled.append(behaviour.next_token(tokens))
            tokens.append(sampled[-1])
            if draft != sampled[-1]:
                return tokens, len(drafts) - len(sampled) + 1
        sampled.append(behaviour.next_token(tokens))
        return [*tokens, sampled[-1]], 0

    # Loading.

    def _start_loads(self, plan: Plan, in_flight: Sequence[Executed], live: Sequence[str], done: Executed) -> None:
        for order in plan.loads:
            if not order.asynchronous:
                self._load(order, plan.number, done)
                continue
            self._loading.append((plan.number, order))
            targets = {slot for _, _, slot in self._load_slots(order)}
            for step in in_flight:
                done.objections += unordered(order.request_id, targets, step, live)

    def _finish_loads(self, number: int, done: Executed) -> None:
        """Asynchronous loads write whenever they like; here, at their end."""
        for started, order in list(self._loading):
            if number >= started + self._behaviours[order.request_id].latency:
                self._loading.remove((started, order))
                self._load(order, started, done)
                done.received.append(order.request_id)

    def _load(self, order: LoadOrder, number: int, done: Executed) -> None:
        behaviour = self._behaviours[order.request_id]
        fails_at = self._failing_position(order, behaviour)
        for group, position, slot in self._load_slots(order):
            if position >= fails_at:
                done.invalid_blocks.add(slot[0])
                self.memory.write(slot, BLANK)
            else:
                self.memory.write(slot, self.memory.contents(group, order.tokens)[position])
        if fails_at < order.end:
            done.failed.append(order.request_id)

    def _failing_position(self, order: LoadOrder, behaviour: Behaviour) -> int:
        """Loads fail by whole blocks."""
        if behaviour.fails_at is None:
            return order.end
        first = order.start // self.memory.block_size
        return max(order.start, (first + behaviour.fails_at) * self.memory.block_size)

    def _load_slots(self, order: LoadOrder) -> Iterator[tuple[int, int, Slot]]:
        for group, table in enumerate(order.tables):
            for position in range(order.start, order.end):
                slot = self._slot(table, position)
                if slot is not None:
                    yield group, position, slot


def _met(new: Entered) -> Known:
    tables = [list(blocks) for blocks in new.tables]
    return Known(list(new.tokens), len(new.tokens), tables, new.num_computed_tokens)


def unordered(name: str, targets: set[Slot], step: Executed, live: Sequence[str]) -> list[Objection]:
    """A load that is not ordered behind a step in flight must not touch what that step writes, or what a request that
    still runs reads in it.
    """
    objections = []
    for other in step.writes:
        if other == name:
            continue
        written = targets & step.writes[other]
        read = targets.intersection(one.slot for one in step.reads[other] if other in live)
        for verb, slots in (("writes", written), ("reads", read)):
            if slots:
                block = min(slots)[0]
                text = f"block {block} is loaded into for {name} while a step in flight still {verb} it for {other}"
                objections.append(Objection("MEM-1", text))
    return objections
