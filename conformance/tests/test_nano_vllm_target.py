"""The nano-vllm adapter: the older dialect on a real fork where one is installed, the newer one on a stand-in.

The newer dialect is on no package index; the stand-in below is our own minimal code with its calls.
"""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.adapter import Commits, ReportsHit, ShowsKeys
from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets.nano_vllm import CommittingNanoVllmAdapter, NanoVllmAdapter
from slotproof.conformance.targets.registry import load_target
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

STAND_IN_SEQUENCE = """
class Sequence:
    block_size = 256

    def __init__(self, token_ids):
        self.token_ids = list(token_ids)
        self.num_cached_tokens = self.num_scheduled_tokens = 0
        self.block_table = []

    def __len__(self):
        return len(self.token_ids)

    @property
    def num_blocks(self):
        return -(-len(self) // self.block_size)

    def block(self, i):
        return self.token_ids[i * self.block_size : (i + 1) * self.block_size]

    def append_token(self, token):
        self.token_ids.append(token)
"""

STAND_IN_MANAGER = """
from collections import deque


class Block:
    def __init__(self):
        self.ref_count, self.hash, self.token_ids = 0, -1, []


class BlockManager:
    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.blocks = [Block() for _ in range(num_blocks)]
        self.hash_to_block_id = {}
        self.free_block_ids = deque(range(num_blocks))
        self.used_block_ids = set()

    def _take(self, block_id):
        self.free_block_ids.remove(block_id)
        self.used_block_ids.add(block_id)
        self.blocks[block_id].ref_count = 1
        return block_id

    def _take_fresh(self):
        block_id = self.free_block_ids[0]
        block = self.blocks[block_id]
        if self.hash_to_block_id.get(block.hash) == block_id:
            del self.hash_to_block_id[block.hash]
        block.hash, block.token_ids = -1, []
        return self._take(block_id)

    def _hits(self, seq):
        found, h = [], -1
        for i in range(seq.num_blocks - 1):
            h = hash((h, *seq.block(i)))
            block_id = self.hash_to_block_id.get(h, -1)
            if block_id == -1 or self.blocks[block_id].token_ids != seq.block(i):
                break
            found.append(block_id)
        return found

    def can_allocate(self, seq):
        hits = self._hits(seq)
        held = sum(block_id in self.used_block_ids for block_id in hits)
        return len(hits) if len(self.free_block_ids) >= seq.num_blocks - held else -1

    def allocate(self, seq, num_cached_blocks):
        assert not seq.block_table
        for block_id in self._hits(seq)[:num_cached_blocks]:
            if block_id in self.used_block_ids:
                self.blocks[block_id].ref_count += 1
            else:
                self._take(block_id)
            seq.block_table.append(block_id)
        seq.block_table += [self._take_fresh() for _ in range(seq.num_blocks - num_cached_blocks)]
        seq.num_cached_tokens = num_cached_blocks * self.block_size

    def can_append(self, seq):
        return len(self.free_block_ids) >= (len(seq) % self.block_size == 1)

    def may_append(self, seq):
        if len(seq) % self.block_size == 1:
            seq.block_table.append(self._take_fresh())

    def hash_blocks(self, seq):
        start = seq.num_cached_tokens // self.block_size
        end = (seq.num_cached_tokens + seq.num_scheduled_tokens) // self.block_size
        h = self.blocks[seq.block_table[start - 1]].hash if start else -1
        for i in range(start, end):
            block = self.blocks[seq.block_table[i]]
            h = block.hash = hash((h, *seq.block(i)))
            block.token_ids = seq.block(i)
            self.hash_to_block_id[h] = seq.block_table[i]

    def deallocate(self, seq):
        for block_id in reversed(seq.block_table):
            self.blocks[block_id].ref_count -= 1
            if self.blocks[block_id].ref_count == 0:
                self.used_block_ids.remove(block_id)
                self.free_block_ids.append(block_id)
        seq.num_cached_tokens = 0
        seq.block_table.clear()
"""


@dataclass(frozen=True)
class View:
    request_id: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    status: str = "waiting"
    draft_token_ids: tuple[int, ...] = ()
    cache_salt: str | None = None
    extra_keys: tuple[str, ...] = ()


def view(name: str, *tokens: int) -> View:
    return View(name, tokens, len(tokens))


def pool(num_usable: int, block_size: int) -> Config:
    return Config(num_usable + 1, (FullAttention(block_size),), max_model_len=64, max_in_flight_tokens=64)


@pytest.fixture
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def checkout(tmp_path: Path, clean_imports: None) -> Path:
    """The stand-in, in a package that cannot be imported the normal way."""
    engine = tmp_path / "standinvllm" / "engine"
    engine.mkdir(parents=True)
    (tmp_path / "standinvllm" / "__init__.py").write_text("import no_such_device_library\n")
    (engine / "__init__.py").write_text("")
    (engine / "sequence.py").write_text(STAND_IN_SEQUENCE)
    (engine / "block_manager.py").write_text(STAND_IN_MANAGER)
    return tmp_path


@pytest.fixture
def newer(checkout: Path) -> Any:
    return load_target(f"nano-vllm={checkout}")


@pytest.fixture
def older(clean_imports: None) -> Any:
    if importlib.util.find_spec("nanovllm_voxcpm") is None or importlib.util.find_spec("xxhash") is None:
        pytest.skip(
            "nanovllm_voxcpm is not installed: pip install --no-deps nano-vllm-voxcpm==2.0.5 and pip install xxhash"
        )
    return load_target("nano-vllm=nanovllm_voxcpm")


def admit_and_free(adapter: Any, request: View) -> int:
    assert adapter.allocate_slots(request, len(request.token_ids)) is not None
    num_hit = int(adapter.hit_tokens(request))
    adapter.free(request)
    return num_hit


def test_the_newer_dialect_declares_itself(newer: Any) -> None:
    assert type(newer) is CommittingNanoVllmAdapter
    assert isinstance(newer, Commits)
    assert isinstance(newer, ReportsHit)
    assert not isinstance(newer, ShowsKeys)
    assert (newer.profile.keys_at, newer.profile.runs_ahead, newer.profile.null_block) == ("commit", False, None)


def test_the_newer_dialect_offers_blocks_after_the_commit(newer: Any) -> None:
    newer.reset(pool(8, 2))
    first, twin, third = view("a", 1, 2, 3, 4), view("b", 1, 2, 3, 4), view("c", 1, 2, 3, 4)
    assert newer.allocate_slots(first, 4) == ((0, 1),)
    assert newer.allocate_slots(twin, 4) == ((2, 3),)
    assert newer.hit_tokens(twin) == 0
    newer.commit(replace(first, num_computed_tokens=4), 4)
    assert newer.allocate_slots(third, 4) == ((4,),)
    assert newer.hit_tokens(third) == 2
    assert newer.block_table(third) == ((0, 4),)
    assert [newer.ref_count(block) for block in range(8)] == [2, 1, 1, 1, 1, 0, 0, 0]


def test_a_token_takes_a_block_when_it_starts_one(newer: Any) -> None:
    newer.reset(pool(3, 2))
    request = view("a", 1, 2, 3)
    assert newer.allocate_slots(request, 3) == ((0, 1),)
    for tokens, taken in (((1, 2, 3, 4), ()), ((1, 2, 3, 4, 5), (2,)), ((1, 2, 3, 4, 5, 6), ())):
        request = replace(request, token_ids=tokens, num_computed_tokens=len(tokens) - 1, status="running")
        assert newer.allocate_slots(request, 1) == (taken,)
        newer.commit(replace(request, num_computed_tokens=len(tokens)), len(tokens))
    request = replace(request, token_ids=(1, 2, 3, 4, 5, 6, 7), num_computed_tokens=6)
    before = newer.snapshot()
    assert newer.allocate_slots(request, 1) is None
    assert newer.snapshot() == before
    newer.free(request)
    assert newer.free_queue() == [2, 1, 0]
    assert newer.block_table(request) == ((),)


def test_a_refused_admission(newer: Any) -> None:
    newer.reset(pool(2, 2))
    assert newer.allocate_slots(view("a", 1, 2, 3, 4, 5), 5) is None
    assert newer.num_free_blocks() == 2


def test_more_than_one_token_a_step_is_the_suites_mistake(newer: Any) -> None:
    newer.reset(pool(4, 2))
    request = view("a", 1, 2, 3)
    newer.allocate_slots(request, 3)
    with pytest.raises(ValueError, match="a grew by 2 tokens between two calls; nano-vllm appends one a step"):
        newer.allocate_slots(replace(request, token_ids=(1, 2, 3, 4, 5)), 2)


def test_the_stand_in_has_no_false_hit(newer: Any) -> None:
    newer.reset(pool(2, 2))
    for request in (view("a", 1, 1, 5), view("b", 2, 2, 1, 1)):
        newer.allocate_slots(request, len(request.token_ids))
        newer.commit(request, len(request.token_ids))
        newer.free(request)
    assert admit_and_free(newer, view("c", 1, 1, 9)) == 0


def test_a_missing_dependency_is_named(checkout: Path) -> None:
    manager = checkout / "standinvllm" / "engine" / "block_manager.py"
    manager.write_text("import no_such_hash_library\n")
    with pytest.raises(SetupError) as caught:
        load_target(f"nano-vllm={checkout}")
    assert str(caught.value) == (
        "The nano-vllm target cannot import standinvllm.engine.block_manager: "
        "the module no_such_hash_library is missing; install it, for example with `pip install no_such_hash_library`."
    )


@pytest.mark.thirdparty
def test_the_older_dialect_declares_itself(older: Any) -> None:
    assert type(older) is NanoVllmAdapter
    assert not isinstance(older, Commits)
    assert (older.profile.keys_at, older.profile.one_token_decode) == ("schedule", True)
    assert older.profile.version != "unknown"


@pytest.mark.thirdparty
def test_the_false_prefix_hit_of_the_older_dialect(older: Any) -> None:
    """Block 0 is hit for 1 1 although it was computed behind 2 2: the entry of its older content was never dropped."""
    older.reset(pool(2, 2))
    assert admit_and_free(older, view("a", 1, 1)) == 0
    assert admit_and_free(older, view("b", 2, 2, 1, 1)) == 0
    request = view("c", 1, 1, 9)
    assert older.allocate_slots(request, 3) == ((1,),)
    assert older.hit_tokens(request) == 2
    assert older.block_table(request) == ((0, 1),)


@pytest.mark.thirdparty
def test_decoding_with_the_older_dialect_passes_its_assertions(older: Any) -> None:
    older.reset(pool(6, 2))
    request = view("a", 1, 1)
    older.allocate_slots(request, 2)
    for length in range(3, 13):
        request = replace(request, token_ids=(1,) * length, num_computed_tokens=length - 1, status="running")
        assert older.allocate_slots(request, 1) is not None
    assert older.num_free_blocks() == 0
    twin = view("b", *(1,) * 12)
    assert older.allocate_slots(twin, 12) is None
    older.free(request)
    assert admit_and_free(older, twin) == 12
