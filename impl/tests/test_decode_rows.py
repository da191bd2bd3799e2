"""The batched decode step: equal to the single calls in order, up to the first refusal (BATCH-1)."""

import random
from collections import Counter
from typing import Any

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator
from slotproof.impl.groups import Group

torch = pytest.importorskip("torch", reason="the batched decode step needs torch")

KINDS: dict[str, tuple[Group, ...]] = {
    "full": (FullAttention(4),),
    "two full": (FullAttention(2), FullAttention(2)),
    "block of one": (FullAttention(1),),
    "window": (SlidingWindow(2, 5),),
    "hybrid": (FullAttention(2), SlidingWindow(2, 3)),
}


def state(allocator: SlotAllocator, names: list[str]) -> Any:
    """All that can be asked of an allocator; of several keys only the blocks of each have an order."""
    keys = allocator.cached_blocks()
    offered: dict[Any, list[int]] = {}
    for block in allocator.index_order():
        offered.setdefault(keys[block], []).append(block)
    return (
        allocator.free_queue(),
        [allocator.ref_count(block) for block in range(allocator.config.num_blocks)],
        offered,
        [(allocator.block_table(name), allocator.cached_count(name)) for name in names],
    )


def world(rng: random.Random, groups: tuple[Group, ...], caching: bool = True) -> tuple[SlotAllocator, list[Request]]:
    """Running requests over two token ids, so that keys collide, and a pool that runs out soon."""
    config = AllocatorConfig(rng.choice([20, 40, 60]) * len(groups), groups, 64, enable_caching=caching)
    allocator, running = SlotAllocator(config), list[Request]()
    for number in range(rng.randint(1, 9)):
        tokens = [rng.randint(0, 1) for _ in range(rng.randint(1, 9))]
        request = Request(str(number), tokens, block_size=config.block_size)
        if allocator.allocate_slots(request, len(tokens)) is not None:
            request.num_computed_tokens, request.status = len(tokens), RequestStatus.RUNNING
            running.append(request)
    for request in running[6:]:
        allocator.free(request)
    return allocator, running[:6]


def single_calls(allocator: SlotAllocator, running: list[Request], new: list[int], **options: Any) -> Any:
    """The fold: rows served, rows that got blocks, their blocks."""
    rows, blocks = [], []
    for row, request in enumerate(running):
        answer = allocator.allocate_slots(request, new[row], **options)
        if answer is None:
            return row, rows, blocks
        if any(answer):
            rows.append(row)
            blocks.append(answer)
    return len(running), rows, blocks


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_single_calls_up_to_the_first_refusal(kind: str) -> None:
    seen = Counter[str]()
    for seed in range(150):
        rng = random.Random(seed)
        allocator, running = world(random.Random(seed), KINDS[kind], caching=seed % 5 > 0)
        single, singles = world(random.Random(seed), KINDS[kind], caching=seed % 5 > 0)
        if not running:
            continue
        names = [request.request_id for request in running]
        rows = allocator.decode_rows(running)
        for _ in range(12):
            for request, twin in zip(running, singles, strict=True):
                token = rng.randint(0, 1)
                request.append([token])
                twin.append([token])
            room = min(64 - twin.num_computed_tokens for twin in singles)
            if not room:
                break
            new = [min(rng.choice([1, 1, 1, 3, 7]), room) for _ in running]
            uniform = rng.random() < 0.5
            if uniform:
                new = [new[0]] * len(new)
            options = {"num_lookahead_tokens": rng.choice([0, 0, 2]), "reserved_blocks": rng.choice([0, 0, 0, 1, 30])}
            expected = single_calls(single, singles, new, **options)
            answer = allocator.allocate_decode(rows, new[0] if uniform else torch.tensor(new), **options)
            assert (answer.num_served, answer.rows, answer.blocks) == expected
            assert state(allocator, names) == state(single, names)
            seen["refused"] += answer.num_served < len(running)
            seen["grown"] += bool(answer.rows)
            # Some drafts are rejected.
            accepted = [0] * len(running)
            for row, twin in enumerate(singles[: answer.num_served]):
                accepted[row] = min(new[row], twin.num_tokens - twin.num_computed_tokens)
                twin.num_computed_tokens += accepted[row]
            rows.advance(accepted[0] if len(set(accepted)) == 1 else torch.tensor(accepted))
    assert min(seen["refused"], seen["grown"]) > 50, seen


def decoding(num_blocks: int = 20) -> tuple[SlotAllocator, list[Request], Any]:
    allocator, running = SlotAllocator(AllocatorConfig(num_blocks, (FullAttention(4),), 40)), list[Request]()
    for name in "ab":
        request = Request(name, range(4), block_size=4)
        allocator.allocate_slots(request, 4)
        request.num_computed_tokens, request.status = 4, RequestStatus.RUNNING
        request.append([9])
        running.append(request)
    return allocator, running, allocator.decode_rows(running)


def test_the_refused_row_and_those_after_it_are_untouched() -> None:
    allocator, _, rows = decoding(num_blocks=4)
    answer = allocator.allocate_decode(rows)
    assert (answer.num_served, answer.rows, answer.blocks) == (1, [0], [((3,),)])
    assert (allocator.block_table("b"), allocator.num_free_blocks) == (((2,),), 0)
    before = state(allocator, ["a", "b"])
    assert allocator.allocate_decode(rows).num_served == 1
    assert state(allocator, ["a", "b"]) == before


def test_single_calls_in_between_are_noticed() -> None:
    allocator, running, rows = decoding()
    assert allocator.allocate_slots(running[0], 8) == ((3, 4),)
    assert allocator.allocate_decode(rows).blocks == [((5,),)]
    assert allocator.block_table("a") == ((1, 3, 4),)


def test_no_rows_are_served_at_once() -> None:
    allocator = decoding()[0]
    assert allocator.allocate_decode(allocator.decode_rows([])).num_served == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_new_tokens": 0}, "0 new tokens, 0 lookahead tokens, 0 reserved blocks; give at least 1 new token"),
        ({"num_new_tokens": torch.tensor([1, 0])}, "0 new tokens"),
        ({"num_lookahead_tokens": -1}, "-1 lookahead tokens"),
        ({"reserved_blocks": -1}, "-1 reserved blocks"),
        (
            {"num_new_tokens": 37},
            "allocate_slots('a'): computed, hit, external and new tokens end at 41, past max_model",
        ),
    ],
)
def test_a_mistake_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    allocator, _, rows = decoding()
    before = state(allocator, ["a", "b"])
    with pytest.raises(ValueError) as caught:
        allocator.allocate_decode(rows, **arguments)
    assert message in str(caught.value)
    assert state(allocator, ["a", "b"]) == before


def test_rows_are_running_requests_that_hold_blocks_and_none_is_freed() -> None:
    allocator, running, rows = decoding()
    with pytest.raises(ValueError, match="'a' is named twice"):
        allocator.decode_rows([running[0], running[0]])
    waiting = Request("c", [1], block_size=4)
    with pytest.raises(ValueError, match="'c' is waiting; only running requests"):
        allocator.decode_rows([waiting])
    waiting.status = RequestStatus.RUNNING
    with pytest.raises(ValueError, match="'c' holds no blocks; admit it first"):
        allocator.decode_rows([waiting])
    rows.advance(torch.tensor([0, 1]))
    assert rows.num_computed.tolist() == [4, 5]
    with pytest.raises(ValueError, match=r"'b'.*5 computed tokens but 4 slots"):
        allocator.allocate_decode(rows)
    running[1].status = RequestStatus.PREEMPTED
    rows.advance(torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="'b' is preempted; only running"):
        allocator.allocate_decode(rows)
    allocator.free(running[1])
    with pytest.raises(ValueError, match="'b' was freed; make the rows anew without it"):
        allocator.allocate_decode(rows)
    assert allocator.allocate_decode(allocator.decode_rows(running[:1])).rows == [0]
