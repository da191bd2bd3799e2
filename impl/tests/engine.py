"""A small engine around the allocator and its memory: random schedules, preemption, drafts, forks and prefix hits.

It does what a worker does with each answer, and poisons every block with NaN when it is handed out, so that reading
what nobody wrote shows. What it generates is compared with decoding without any cache.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator
from slotproof.impl.groups import Group
from slotproof.impl.memory import BlockTables, KVMemory, MemoryConfig

from .model import VOCABULARY, Transformer, attention, fingerprints, visible

BLOCK_SIZE, MAX_LEN, NUM_ROWS = 4, 64, 6

WINDOW = 6
LAYERS: tuple[tuple[int, int], ...] = ((0, 0), (1, 0), (0, 1))
"""The model's layers as (group, layer of the group): the middle one looks at a window."""
WINDOWS: tuple[int | None, ...] = (None, WINDOW, None)
GROUPS: tuple[Group, ...] = (FullAttention(BLOCK_SIZE), SlidingWindow(BLOCK_SIZE, WINDOW))
FULL_GROUPS: tuple[Group, ...] = (FullAttention(BLOCK_SIZE), FullAttention(BLOCK_SIZE))
"""For hits that end inside a block."""


@dataclass(eq=False)
class Generation:
    """A request and what it must generate."""

    request: Request
    expected: list[int]
    parent: "Generation | None" = None
    row: int = -1

    @property
    def generated(self) -> int:
        return self.request.num_tokens - self.request.num_prompt_tokens


@dataclass
class Scheduled:
    """One request's part of a step: the tokens to compute from `start` on, drafts last."""

    sequence: Generation
    start: int
    tokens: list[int]
    num_drafts: int
    samples: bool


@dataclass
class Step:
    """What the worker gets."""

    scheduled: list[Scheduled] = field(default_factory=list)
    fresh: list[list[int]] = field(default_factory=lambda: [[] for _ in GROUPS])
    handed_out: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    num_pinned: int = 0
    """Copies, of those, whose ends the allocator holds until they are made."""


class Engine:
    """Carries out steps until it is told to stop; subclasses compute, and plant faults."""

    groups = GROUPS
    windows = WINDOWS
    hash_size: int | None = None

    def __init__(self, seed: int, num_blocks: int = 30, device: str = "cpu") -> None:
        # The tensors are tiny; threads would only wait for one another.
        torch.set_num_threads(1)
        self.rng = random.Random(seed)
        self.device = device
        self.allocator = self.new_allocator(AllocatorConfig(num_blocks, self.groups, MAX_LEN, hash_size=self.hash_size))
        self.model = Transformer(seed, len(LAYERS))
        layers = tuple(sum(group == number for group, _ in LAYERS) for number in range(len(GROUPS)))
        self.memory = KVMemory(
            MemoryConfig(
                num_blocks,
                BLOCK_SIZE,
                layers,
                self.model.num_heads,
                self.model.head_size,
                torch.float64,
                device,
                clear_groups=(0,),
            )
        )
        self.tables = BlockTables(NUM_ROWS, MAX_LEN // BLOCK_SIZE, len(GROUPS), BLOCK_SIZE, device)
        self.rows = list(range(NUM_ROWS))
        self.running: list[Generation] = []
        self.waiting: list[Generation] = []
        self.prompts: list[list[int]] = [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
        self.count: Counter[str] = Counter()

    # What subclasses change.

    def new_allocator(self, config: AllocatorConfig) -> SlotAllocator:
        return SlotAllocator(config)

    def continuation(self, prompt: list[int], length: int) -> list[int]:
        raise NotImplementedError

    def forward(self, part: Scheduled) -> list[int]:
        raise NotImplementedError

    def prepare(self, step: Step) -> None:
        self.memory.prepare(step.fresh, step.copies)

    def finish(self, step: Step) -> None:
        """After the forwards."""

    def enter(self, sequence: Generation) -> None:
        self.tables.set_row(sequence.row, self.allocator.block_table(sequence.request.request_id))

    def take_copies(self, step: Step) -> None:
        copies = self.allocator.take_copies()
        step.copies += copies
        step.num_pinned += len(copies)

    def slots_to_write(self, group: int, rows: Tensor, positions: Tensor) -> Tensor:
        return self.tables.slots(group, rows, positions)

    def layer_to_write(self, group: int, layer: int) -> int:
        return layer

    # The scheduler.

    def run(self, num_tokens: int) -> None:
        """Steps until so many tokens are generated."""
        while self.count["generated"] < num_tokens:
            self.step()

    def step(self) -> None:
        while len(self.waiting) < 3:
            self.waiting.append(self.newcomer())
        if self.rng.random() < 0.3:
            self.fork()
        step = Step()
        if self.running and self.rng.random() < 0.05:
            self.preempt(self.rng.choice(self.running))
        preempted = self.count["preempted"]
        for sequence in list(self.running):
            if sequence in self.running:
                self.schedule(sequence, step)
        if self.count["preempted"] == preempted:
            while self.waiting and self.rows and self.admit(self.waiting[0], step):
                self.running.append(self.waiting.pop(0))
        self.execute(step)

    def newcomer(self) -> Generation:
        """A request whose prompt extends an earlier one."""
        base = self.rng.choice(self.prompts)
        prompt = base[: self.rng.randint(1, len(base))]
        prompt = (prompt + [self.rng.randrange(VOCABULARY) for _ in range(self.rng.randint(0, 3))])[: MAX_LEN // 2]
        self.prompts = [*self.prompts[-12:], prompt]
        return self.generation(prompt)

    def fork(self) -> None:
        """A second continuation of a running request, which is to be admitted next."""
        decoding = [one for one in self.running if one.generated and one.request.num_tokens < MAX_LEN - 8]
        if decoding:
            parent = self.rng.choice(decoding)
            self.waiting.insert(0, self.generation(list(parent.request.token_ids), parent))

    def generation(self, prompt: list[int], parent: "Generation | None" = None) -> Generation:
        self.count["requests"] += 1
        length = self.rng.randint(1, min(24, MAX_LEN - 4 - len(prompt)))
        request = Request(f"r{self.count['requests']}", prompt, block_size=BLOCK_SIZE, hash_size=self.hash_size)
        return Generation(request, self.continuation(prompt, length), parent)

    def part_of(self, sequence: Generation, start: int) -> Scheduled:
        """A chunk of what is known from `start` on; drafts if it reaches the end."""
        known = sequence.request.token_ids
        left = len(known) - start
        chunk = min(left, self.rng.choice([1, 5, 16, 64]))
        drafts: list[int] = []
        if chunk == left:
            coming = sequence.expected[sequence.generated :][: self.rng.randint(0, 4)]
            drafts = [token if self.rng.random() < 0.5 else self.rng.randrange(VOCABULARY) for token in coming]
            drafts = drafts[: MAX_LEN - len(known) - 1]
        return Scheduled(sequence, start, [*known[start : start + chunk], *drafts], len(drafts), chunk == left)

    def schedule(self, sequence: Generation, step: Step) -> None:
        """The running pass for one request: preempts from the back until it fits, perhaps itself."""
        request = sequence.request
        part = self.part_of(sequence, request.num_computed_tokens)
        lookahead = self.rng.choice([0, 0, 2])
        while (answer := self.ask(part, num_lookahead_tokens=lookahead)) is None:
            victim = self.running[-1]
            self.preempt(victim)
            if victim is sequence:
                return
        held = [len(table) - len(new) for table, new in zip(self.table(sequence), answer, strict=True)]
        for group, blocks in enumerate(answer):
            columns = range(held[group], held[group] + len(blocks))
            self.tables.append(group, [sequence.row] * len(blocks), list(columns), blocks)
        self.hand_out(step, answer, [block for blocks in answer for block in blocks])
        step.scheduled.append(part)

    def admit(self, sequence: Generation, step: Step) -> bool:
        """The waiting pass for one request: its hit, and for a fork what its parent has computed beyond."""
        request = sequence.request
        blocks, hit = self.allocator.get_computed_blocks(request)
        external = self.copyable(sequence, hit)
        part = self.part_of(sequence, hit + external)
        answer = self.ask(
            part,
            new_computed_blocks=blocks,
            num_new_computed_tokens=hit,
            num_external_computed_tokens=external,
            full_sequence_must_fit=self.rng.random() < 0.8,
            has_scheduled_reqs=bool(self.running),
        )
        if answer is None:
            self.count["refused"] += 1
            return False
        self.count["hit"] += hit
        self.count["copied"] += hit % BLOCK_SIZE > 0
        self.take_copies(step)
        self.count["forked"] += external > 0
        request.status = RequestStatus.RUNNING
        sequence.row = self.rows.pop(0)
        adopted = hit // BLOCK_SIZE
        if external and sequence.parent is not None:
            last = -(-(hit + external) // BLOCK_SIZE)
            for source, destination in zip(self.table(sequence.parent), self.table(sequence), strict=True):
                step.copies += [(source[at], destination[at]) for at in range(adopted, last) if destination[at]]
        self.hand_out(step, answer, [block for table in self.table(sequence) for block in table[adopted:] if block])
        self.enter(sequence)
        step.scheduled.append(part)
        return True

    def copyable(self, sequence: Generation, hit: int) -> int:
        """Tokens behind the hit whose keys and values the parent holds and the fork would need."""
        parent, request = sequence.parent, sequence.request
        if parent is None or parent not in self.running or hit % BLOCK_SIZE:
            return 0
        total = min(parent.request.num_computed_tokens, request.num_tokens - 1)
        last = -(-total // BLOCK_SIZE)
        needed = [range(max(hit // BLOCK_SIZE, group.skipped_blocks(total)), last) for group in self.groups]
        held = all(table[at] for table, wanted in zip(self.table(parent), needed, strict=True) for at in wanted)
        return max(total - hit, 0) if held else 0

    def ask(self, part: Scheduled, **options: object) -> tuple[tuple[int, ...], ...] | None:
        return self.allocator.allocate_slots(part.sequence.request, len(part.tokens), **options)  # type: ignore[arg-type]

    def hand_out(self, step: Step, answer: Sequence[Sequence[int]], blocks: list[int]) -> None:
        """Notes the fresh blocks of an answer, and all that were handed out: those for a copy are not in the answer."""
        for fresh, new in zip(step.fresh, answer, strict=True):
            fresh += new
        step.handed_out += blocks

    def preempt(self, sequence: Generation) -> None:
        self.count["preempted"] += 1
        self.allocator.preempt(sequence.request)
        self.leave(sequence)
        self.waiting.insert(0, sequence)

    def leave(self, sequence: Generation) -> None:
        self.running.remove(sequence)
        self.rows.append(sequence.row)

    def table(self, sequence: Generation) -> tuple[tuple[int, ...], ...]:
        return self.allocator.block_table(sequence.request.request_id)

    # The worker.

    def execute(self, step: Step) -> None:
        if step.handed_out:
            for tensor in self.memory.tensors:
                tensor[step.handed_out] = float("nan")
        self.prepare(step)
        outputs = [self.forward(part) for part in step.scheduled]
        self.finish(step)
        for _ in range(step.num_pinned):
            assert self.allocator.release_copy()
        for part, output in zip(step.scheduled, outputs, strict=True):
            self.settle(part, output)

    def settle(self, part: Scheduled, output: list[int]) -> None:
        """Accepts the drafts that the model would have chosen, and one token more."""
        sequence, request = part.sequence, part.sequence.request
        chunk = len(part.tokens) - part.num_drafts
        request.num_computed_tokens = part.start + chunk
        if not part.samples:
            self.commit(request)
            return
        drafts, chosen = part.tokens[chunk:], output[chunk - 1 :]
        accepted = next((at for at, draft in enumerate(drafts) if draft != chosen[at]), len(drafts))
        if accepted < len(drafts):
            self.count["rejected"] += 1
            # Later prompts contain what was rejected: a key that it got would be found.
            self.prompts.append([*request.token_ids, *drafts])
        self.count["accepted"] += accepted
        request.num_computed_tokens += accepted
        for token in chosen[: accepted + 1]:
            if sequence.generated < len(sequence.expected):
                self.count["different"] += token != sequence.expected[sequence.generated]
                self.count["generated"] += 1
                request.append([token])
        # A token beyond what was asked for is dropped, with its slot.
        request.num_computed_tokens = min(request.num_computed_tokens, request.num_tokens)
        self.commit(request)
        if sequence.generated == len(sequence.expected):
            self.allocator.free(request)
            self.leave(sequence)

    def commit(self, request: Request) -> None:
        """Parts of blocks may be copied now that they are computed; whole blocks were offered before."""
        if self.hash_size is not None:
            self.allocator.cache_blocks(request, request.num_computed_tokens)

    def places(self, part: Scheduled) -> tuple[Tensor, Tensor]:
        """Row and position of each token."""
        count = len(part.tokens)
        positions = torch.arange(part.start, part.start + count, device=self.device)
        return torch.full((count,), part.sequence.row, device=self.device), positions

    def context(self, part: Scheduled, group: int, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and positions of the whole blocks up to the last token."""
        num_blocks = -(-(part.start + len(part.tokens)) // BLOCK_SIZE)
        table = self.tables.tables[group][part.sequence.row : part.sequence.row + 1, :num_blocks]
        keys, values = self.memory.gather(group, layer, table)
        return keys[0], values[0], torch.arange(num_blocks * BLOCK_SIZE, device=self.device)


class TransformerEngine(Engine):
    """Generates with the tiny transformer over paged attention."""

    def continuation(self, prompt: list[int], length: int) -> list[int]:
        return self.model.continuation(prompt, length, self.windows)

    def forward(self, part: Scheduled) -> list[int]:
        rows, positions = self.places(part)

        def attend(number: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            group, layer = LAYERS[number]
            slots = self.slots_to_write(group, rows, positions)
            self.memory.write(group, self.layer_to_write(group, layer), slots, keys, values)
            all_keys, all_values, seen_from = self.context(part, group, layer)
            seen = visible(positions, seen_from, self.windows[number])
            if group not in self.memory.config.clear_groups:
                # Nobody cleared what is not seen, so it must not even be multiplied with 0.
                all_values = all_values.masked_fill(~seen.any(dim=0)[:, None, None], 0.0)
            return attention(queries, all_keys, all_values, seen)

        return self.model.forward(torch.tensor(part.tokens, device=self.device), positions, attend).tolist()


class FingerprintEngine(Engine):
    """Writes at each position what only this layer and this prefix have, and looks at all that a token would see."""

    def continuation(self, prompt: list[int], length: int) -> list[int]:
        tokens = list(prompt)
        for _ in range(length):
            tokens.append(int(fingerprints(tokens, 0)[-1]) % VOCABULARY)
        return tokens[len(prompt) :]

    def forward(self, part: Scheduled) -> list[int]:
        rows, positions = self.places(part)
        whole = [*part.sequence.request.token_ids[: part.start], *part.tokens]
        shape = (self.model.num_heads, self.model.head_size)
        for number, (group, layer) in enumerate(LAYERS):
            marks = torch.tensor(fingerprints(whole, number), dtype=torch.float64, device=self.device)
            new = marks[part.start :, None, None].expand(-1, *shape)
            slots = self.slots_to_write(group, rows, positions)
            self.memory.write(group, self.layer_to_write(group, layer), slots, new, -new)
            keys, values, seen_from = self.context(part, group, layer)
            seen = visible(positions, seen_from, self.windows[number]).any(dim=0)
            wanted = torch.zeros(len(seen_from), dtype=torch.float64, device=self.device)
            wanted[: len(marks)] = marks
            wrong = (keys[seen] != wanted[seen][:, None, None]) | (values[seen] != -wanted[seen][:, None, None])
            self.count["misread"] += int(wrong.any())
            if group in self.memory.config.clear_groups:
                self.count["stale"] += int(keys.isnan().any())
        return [int(mark) % VOCABULARY for mark in fingerprints(whole, 0)[part.start :]]
