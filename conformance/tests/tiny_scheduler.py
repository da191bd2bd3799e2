"""A small right scheduler, and the faults that can be planted in it: what the judge is tested against.

It runs one step at a time (asked for another while one is in flight, it schedules nothing), first come first served,
ignores drafts, priorities and connectors, and knows full attention only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slotproof.conformance.adapter import Profile
from slotproof.conformance.scheduler_adapter import (
    STOP_TOKEN,
    CachedKey,
    Continued,
    EngineConfig,
    Entered,
    KvEvent,
    NewRequest,
    Output,
    Plan,
    RequestState,
    StepResult,
    View,
)

Key = tuple[int, tuple[int, ...]]


@dataclass
class Job:
    """One request."""

    name: str
    tokens: list[int]
    num_prompt_tokens: int
    max_tokens: int
    resumable: bool
    computed: int = 0
    tables: list[list[int]] = field(default_factory=list)
    status: str = "WAITING"
    inputs: list[tuple[Sequence[int], int]] = field(default_factory=list)
    known_to_worker: bool = False

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens


class TinyScheduler:
    """`fault` names what is planted."""

    profile = Profile("tiny", "1", group_kinds=("full",), free_orders=("lru", "unhashed-first"))

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def reset(self, config: EngineConfig) -> None:
        self.config, self.block_size = config, config.pool.block_size
        self.num_groups = len(config.pool.groups)
        self.refs = [0] * config.pool.num_blocks
        self.queue = list(range(1, config.pool.num_blocks))
        self.keys: dict[int, Key] = {}
        self.jobs: dict[str, Job] = {}
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self.in_flight: dict[int, Plan] = {}
        self.finished: list[str] = []
        self.events: list[KvEvent] = []
        self.number = 0
        self.lost = 0

    # Blocks.

    def pop(self) -> int:
        block = self.queue.pop(0)
        self.forget(block)
        self.refs[block] = 1
        return block

    def forget(self, block: int) -> None:
        key = self.keys.pop(block, None)
        if key is not None and self.fault != "a removal is not announced":
            self.events.append(KvEvent("removed", *key))

    def keep(self, block: int, key: Key) -> None:
        if self.config.pool.caching and block not in self.keys:
            self.keys[block] = key
            self.events.append(KvEvent("stored", *key))

    def release(self, job: Job) -> None:
        for table in job.tables:
            for block in reversed(table):
                self.refs[block] -= 1
                if self.refs[block] == 0:
                    self.queue.append(block)
        job.tables, job.computed = [], 0

    def cache(self, job: Job, computed: int) -> None:
        for group, table in enumerate(job.tables):
            for index in range(min(computed // self.block_size, len(table))):
                self.keep(table[index], (group, tuple(job.tokens[: (index + 1) * self.block_size])))

    def hit(self, job: Job) -> int:
        """Adopt the longest cached prefix that all groups have."""
        found: list[list[int]] = [[] for _ in range(self.num_groups)]
        for index in range((len(job.tokens) - 1) // self.block_size):
            prefix = tuple(job.tokens[: (index + 1) * self.block_size])
            blocks = [self.block_of((group, prefix)) for group in range(self.num_groups)]
            if None in blocks:
                break
            for group, block in enumerate(blocks):
                found[group].append(block or 0)
        for block in (block for table in found for block in table):
            if self.refs[block] == 0:
                self.queue.remove(block)
            self.refs[block] += 1
        job.tables, job.computed = found, len(found[0]) * self.block_size
        return job.computed

    def block_of(self, key: Key) -> int | None:
        return next((block for block, other in self.keys.items() if other == key), None)

    def need(self, job: Job, count: int) -> int:
        entries = -(-(job.computed + count) // self.block_size)
        return sum(max(0, entries - len(table)) for table in job.tables)

    def grow(self, job: Job, count: int) -> list[list[int]] | None:
        if self.need(job, count) > len(self.queue):
            return None
        entries = -(-(job.computed + count) // self.block_size)
        new = [[self.pop() for _ in range(entries - len(table))] for table in job.tables]
        for table, blocks in zip(job.tables, new, strict=True):
            table.extend(blocks)
        return new

    # The engine's calls.

    def add_request(self, request: NewRequest) -> None:
        prompt = list(request.prompt)
        job = Job(request.request_id, prompt, len(prompt), request.max_tokens, request.resumable)
        self.jobs[job.name] = job
        self.waiting.append(job)

    def add_input(self, request_id: str, tokens: Sequence[int], max_tokens: int) -> None:
        job = self.jobs[request_id]
        job.inputs.append((tokens, max_tokens))
        if job.status == "PAUSED":
            self.turn(job)

    def turn(self, job: Job) -> None:
        """A session's next input; its blocks were given back."""
        tokens, job.max_tokens = job.inputs.pop(0)
        if not tokens:
            self.end(job)
            return
        job.tokens = [*(job.tokens if self.fault == "a session keeps its last token" else job.tokens[:-1]), *tokens]
        job.num_prompt_tokens, job.status, job.known_to_worker = len(job.tokens), "WAITING", False
        self.waiting.append(job)

    def end(self, job: Job) -> None:
        if self.fault != "an end keeps the blocks":
            self.release(job)
        del self.jobs[job.name]
        self.finished.append(job.name)
        self.running = [other for other in self.running if other is not job]
        self.waiting = [other for other in self.waiting if other is not job]

    def abort(self, request_id: str) -> None:
        job = self.jobs.get(request_id)
        if job is None:
            return
        if self.fault == "an abort leaks a block" and job.tables and job.tables[0]:
            job.tables[0].pop()
        self.end(job)

    def schedule(self) -> Plan:
        self.number += 1
        scheduled: dict[str, int] = {}
        entered: list[Entered] = []
        continued: list[Continued] = []
        flying = any(plan.scheduled for plan in self.in_flight.values())
        budget = 0 if flying else self.config.max_num_batched_tokens
        if self.fault == "one token over the budget" and budget:
            budget += 1
        victims = self.run(budget, scheduled, continued)
        if not victims:
            self.admit(budget - sum(scheduled.values()), scheduled, entered, continued)
        plan = Plan(self.number, scheduled, {}, entered, continued, self.finished, ())
        self.finished = []
        self.in_flight[self.number] = plan
        return plan

    def run(self, budget: int, scheduled: dict[str, int], continued: list[Continued]) -> int:
        victims, place = 0, 0
        while place < len(self.running) and budget > 0:
            job = self.running[place]
            count = min(len(job.tokens) - job.computed, budget)
            if count < 1:
                place += 1
                continue
            new = self.grow(job, count)
            if new is None:
                victims += 1
                first = self.fault in ("the first is preempted", "a victim stays in the step")
                self.preempt(self.running.pop(0 if first else -1), scheduled)
                continue
            budget -= count
            scheduled[job.name] = count
            if self.fault == "keys before they are computed" and len(self.running) > 1:
                self.keep_wrong(job)
            continued.append(Continued(job.name, job.computed, job.num_output_tokens, new, False, None))
            place += 1
        if self.fault != "a victim stays in the step":
            continued[:] = [row for row in continued if row.request_id in scheduled]
        return victims

    def keep_wrong(self, job: Job) -> None:
        """Offer the last block for a prefix that nobody has written."""
        self.keep(job.tables[0][-1], (0, (1,) * self.block_size))

    def preempt(self, victim: Job, scheduled: dict[str, int]) -> None:
        self.release(victim)
        if self.fault != "a victim stays in the step":
            scheduled.pop(victim.name, None)
        victim.status = "PREEMPTED"
        if self.fault != "a victim is forgotten":
            self.waiting.insert(0, victim)

    def admit(self, budget: int, scheduled: dict[str, int], entered: list[Entered], continued: list[Continued]) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.config.max_num_seqs:
            job = self.waiting[0]
            self.hit(job)
            count = min(len(job.tokens) - job.computed, budget)
            if self.grow(job, count) is None:
                self.refuse(job)
                return
            self.waiting.pop(0)
            self.running.append(job)
            job.status = "RUNNING"
            budget -= count
            scheduled[job.name] = count
            tables = [list(table) for table in job.tables]
            if job.known_to_worker:
                continued.append(Continued(job.name, job.computed, job.num_output_tokens, tables, True, None))
            else:
                entered.append(Entered(job.name, list(job.tokens), tables, job.computed))
            job.known_to_worker = True

    def refuse(self, job: Job) -> None:
        if self.fault != "a refusal keeps the hit":
            self.release(job)
        if self.fault == "a refused head goes to the end":
            self.waiting.append(self.waiting.pop(0))

    def update(self, number: int, result: StepResult) -> Sequence[Output]:
        plan, outputs = self.in_flight.pop(number), []
        for name, count in plan.scheduled.items():
            job = self.jobs.get(name)
            if job is None or job.status != "RUNNING":
                continue
            job.computed += count
            self.cache(job, job.computed)
            sampled = list(result.sampled.get(name, ()))
            if sampled and self.fault == "a token is told twice" and len(job.tokens) > 4:
                sampled *= 2
            job.tokens += sampled
            if sampled:
                outputs.append(Output(name, sampled, self.reason(job)))
        return outputs

    def reason(self, job: Job) -> str:
        stopped = job.tokens[-1] == STOP_TOKEN
        full = job.num_output_tokens >= job.max_tokens or len(job.tokens) >= self.config.pool.max_model_len
        if not stopped and not full:
            return ""
        if job.resumable:
            self.running.remove(job)
            self.release(job)
            job.status = "PAUSED"
            if job.inputs:
                self.turn(job)
        else:
            self.end(job)
        return "STOP" if stopped else "LENGTH"

    def propose_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        pass

    def reset_prefix_cache(self, preempt_running: bool) -> bool:
        if preempt_running and not self.in_flight:
            while self.running:
                self.preempt(self.running.pop(), {})
        if any(self.refs):
            return False
        self.keys.clear()
        self.events.append(KvEvent("cleared", 0, ()))
        return True

    def look(self) -> View:
        return View(
            {job.name: RequestState(job.status, job.computed, len(job.tokens), False) for job in self.jobs.values()},
            [job.name for job in self.running],
            [job.name for job in self.waiting],
            {job.name: [list(table) for table in job.tables] for job in self.jobs.values() if any(job.tables)},
            list(self.refs),
            list(self.queue),
            len(self.queue),
            [CachedKey(block, *key) for block, key in self.keys.items()],
            [],
            bool(self.running or self.waiting or self.in_flight),
        )

    def take_events(self) -> Sequence[KvEvent]:
        events, self.events = self.events, []
        return events
