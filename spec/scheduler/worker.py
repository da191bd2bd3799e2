"""The worker in miniature: it writes what a step computes into the slots its tables name, in the order of the steps.

All writes of a step come before its reads, so a hit on a batch-mate is legal; no two of them go to one slot (MEM-3).
What is written is the prefix that was really executed; a rejected draft leaves something that nobody may read (MEM-1).
"""

from dataclasses import replace

from slotproof.spec.arithmetic import imin
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.scheduler.state import Content, Entry, Memory, SchedulerState, Step


def execute(state: SchedulerState, step: Step, accepted: dict[str, int]) -> Memory:
    """The slots after a step: of each entry's drafts so many are accepted, all of them if nothing is said."""
    memory = state.memory
    for entry in step:
        memory = write(state, memory, entry, accepted.get(entry.request_id, entry.num_drafts))
    return memory


def write(state: SchedulerState, memory: Memory, entry: Entry, num_accepted: int) -> Memory:
    """The slots after one entry; of a stale one, what was known of its request when it became stale is right."""
    tokens = state.job(entry.request_id).token_ids
    end = entry.start + entry.num_tokens
    known = entry.num_final if entry.stale else end - entry.num_drafts + num_accepted
    contents = [
        (position, tokens[: position + 1] if position < imin(known, len(tokens)) else None)
        for position in range(entry.start - entry.num_loaded, end)
    ]
    return written(memory, entry.tables, contents, state.scope.config.block_size)


def written(
    memory: Memory, tables: tuple[tuple[int, ...], ...], contents: list[tuple[int, Content]], block_size: int
) -> Memory:
    """The slots after these positions were written, in every group."""
    blocks = dict(enumerate(memory))
    for table in tables:
        for position, content in contents:
            block, slot = table[position // block_size], position % block_size
            if block != NULL_BLOCK:
                blocks[block] = (*blocks[block][:slot], content, *blocks[block][slot + 1 :])
    return tuple(blocks.values())


def load(state: SchedulerState, name: str, num_tokens: int) -> Memory:
    """The slots after a connector has written the first tokens of a request's prompt."""
    tokens = state.job(name).token_ids
    contents: list[tuple[int, Content]] = [(position, tokens[: position + 1]) for position in range(num_tokens)]
    tables = tuple(table.entries for table in state.snapshot.holding(name).tables)
    return written(state.memory, tables, contents, state.scope.config.block_size)


def forget(state: SchedulerState) -> SchedulerState:
    """The state without the content of free keyless blocks: whoever gets one must write before reading."""
    pool = state.snapshot.pool
    gone = {block for block in pool.queue if pool.key_of(block) == NO_KEY}
    blank = (None,) * state.scope.config.block_size
    return replace(state, memory=tuple(blank if block in gone else slots for block, slots in enumerate(state.memory)))
