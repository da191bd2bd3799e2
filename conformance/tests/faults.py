"""Faults planted in copies of the production allocator, each by changing a line or two of its source.

A copy is written to a folder and imported under a name of its own, so it stays a true copy when the allocator changes;
a line that is no longer there exactly once is an error.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import slotproof.impl
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.targets import impl as adapter_module


@dataclass(frozen=True)
class Edit:
    """Lines of one file of the allocator, and what stands there instead."""

    file: str
    lines: str
    faulty: str

    def applied_to(self, source: str) -> str:
        """The source with the fault.

        Raises:
            LookupError: when the lines are not there exactly once.
        """
        times = source.count(self.lines)
        if times != 1:
            raise LookupError(f"{self.file} has these lines {times} times, not once; adapt the fault:\n{self.lines}")
        return source.replace(self.lines, self.faulty)


@dataclass(frozen=True)
class Fault:
    """A fault, and the law whose business it is."""

    name: str
    law: str
    edits: tuple[Edit, ...]
    groups: tuple[str, ...] = ("full", "window", "full,window")
    """The groups in which it is looked for, in turn."""


def plant(fault: Fault, folder: Path) -> Adapter:
    """The adapter of a copy of the allocator, in `folder`, that has the fault.

    Raises:
        LookupError: when the lines to change are not there exactly once.
    """
    package = "faulty_" + "".join(letter if letter.isalnum() else "_" for letter in fault.name)
    sources = {
        path.name: path.read_text(encoding="utf-8") for path in Path(slotproof.impl.__file__).parent.glob("*.py")
    }
    for edit in fault.edits:
        if edit.file not in sources:
            raise LookupError(f"no file {edit.file} in the allocator; adapt the fault {fault.name}")
        sources[edit.file] = edit.applied_to(sources[edit.file])
    sources["adapter.py"] = Path(adapter_module.__file__).read_text(encoding="utf-8")
    copy = folder / package
    copy.mkdir()
    for name, source in sources.items():
        (copy / name).write_text(source.replace("slotproof.impl", package), encoding="utf-8")
    _load(package, copy / "__init__.py")
    made: Adapter = _load(f"{package}.adapter", copy / "adapter.py").ImplAdapter()
    return made


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FAULTS: tuple[Fault, ...] = (
    Fault(
        "idle hits are not counted",
        "COUNT-2",
        (
            Edit(
                "tables.py",
                "        self.runs.append(run)\n        self.num_idle += len(idle)\n",
                "        self.runs.append(run)\n",
            ),
        ),
    ),
    Fault(
        "the watermark counts for running requests",
        "ADMIT-2",
        (
            Edit(
                "allocator.py",
                "0 if request.status is _RUNNING or not has_scheduled_reqs else self._watermark\n        # Stage 0",
                "self._watermark if has_scheduled_reqs else 0\n        # Stage 0",
            ),
            Edit("allocator.py", "0 if request.status is _RUNNING or not scheduled else", "0 if not scheduled else"),
        ),
    ),
    Fault(
        "keyless blocks are freed to the back",
        "FREE-1",
        (Edit("pool.py", "if hash_of[block] is None and not all_to_back:", "if False:"),),
    ),
    Fault(
        "draft tokens are hashed",
        "HASH-1",
        (
            Edit(
                "allocator.py",
                "            final = len(request.token_ids)\n            if num_tokens",
                "            final = num_tokens\n            if num_tokens",
            ),
            Edit(
                "pool.py",
                "        hashes = request.block_hashes\n",
                '        hashes = [*request.block_hashes, *[b"draft"] * end]\n',
            ),
        ),
    ),
    Fault(
        "a popped block keeps its hash",
        "INDEX-1",
        (
            Edit("pool.py", "        self.index.drop(taken)\n", ""),
            Edit("pool.py", "            self.index.drop_one(block)\n", ""),
        ),
    ),
    Fault(
        "a touched block stays in the queue",
        "POOL-1",
        (
            Edit("pool.py", "        self.queue.remove(idle)\n", ""),
            Edit("pool.py", "        self.queue.remove_run(blocks)\n", ""),
        ),
    ),
    Fault(
        "lookahead reaches past the model's length",
        "TABLE-1",
        (
            Edit(
                "allocator.py",
                "        if slots > longest:\n            slots = longest\n",
                "",
            ),
            Edit(
                "allocator.py",
                "        if slots > self._max_model_len:\n            slots = self._max_model_len\n",
                "",
            ),
        ),
    ),
    Fault(
        "stage 0 looks at the chunk only",
        "ADMIT-1",
        (
            Edit(
                "allocator.py",
                "if self._need(held, None, final if final < longest else longest, self._caps) + watermark > queue",
                "if self._need(held, None, end) + watermark > queue",
            ),
            Edit(
                "allocator.py",
                "if whole and self._need_whole(request, 0, adoption) + watermark > queue",
                "if whole and self._need(0, adoption, total + new) + watermark > queue",
            ),
        ),
    ),
    Fault(
        "reserved blocks are ignored",
        "ADMIT-3",
        (
            Edit("allocator.py", "watermark > queue.count - reserved_blocks:", "watermark > queue.count:"),
            Edit("allocator.py", "watermark > queue.count - reserved:", "watermark > queue.count:"),
        ),
    ),
    Fault(
        "the cached count survives a preemption",
        "HASH-2",
        (
            Edit(
                "allocator.py",
                "        self.free(request)\n        request.status",
                '        self._tables["was " + request.request_id] = self._tables[request.request_id]\n'
                "        self.free(request)\n        request.status",
            ),
            Edit(
                "allocator.py",
                "            tables = self._tables[request.request_id] = RequestTables(self._num_groups)\n",
                "            tables = self._tables[request.request_id] = RequestTables(self._num_groups)\n"
                '            if "was " + request.request_id in self._tables:\n'
                '                earlier = self._tables.pop("was " + request.request_id)\n'
                "                tables.cached, tables.considered = earlier.cached, earlier.considered\n",
            ),
        ),
    ),
    Fault(
        "lookahead is dropped on a block boundary",
        "TABLE-1",
        (
            Edit(
                "allocator.py",
                "        slots = end + num_lookahead_tokens\n",
                "        slots = end + (num_lookahead_tokens if end % size else 0)\n",
            ),
            Edit(
                "allocator.py",
                "        slots = end + lookahead\n",
                "        slots = end + (lookahead if end % self._block_size else 0)\n",
            ),
        ),
    ),
    Fault(
        "hits are touched before the check",
        "REFUSE-1",
        (
            Edit(
                "allocator.py",
                "        if self._need(0, adoption, slots) + watermark > queue.count - reserved:\n",
                "        short = self._need(0, adoption, slots) + watermark > queue.count - reserved\n"
                "        for kept, idle in zip(adoption.kept, adoption.idle):\n"
                "            self._pool.touch(kept, idle)\n"
                "        if short:\n",
            ),
            Edit("allocator.py", "                pool.touch_run(idle)\n", "                pass\n"),
            Edit("allocator.py", "            else:\n                pool.touch(adoption.kept[position], idle)\n", ""),
        ),
    ),
)
"""The twelve faults that a suite for this call has to find."""

SEEN_IN_THE_WILD: tuple[Fault, ...] = (
    Fault(
        "the hash ignores a block's last token",
        "LOOKUP-1",
        (
            Edit(
                "request.py",
                "self._hasher.digest(parent, self.token_ids[start : start + size])",
                "self._hasher.digest(parent, [*self.token_ids[start : start + size - 1], 0])",
            ),
        ),
    ),
    Fault(
        "the hash entry of a reused block is never dropped",
        "LOOKUP-1",
        (
            Edit("prefix_index.py", '("_several",', '("_several", "_stale",'),
            Edit(
                "prefix_index.py",
                "        self.num_dropped = 0\n",
                "        self.num_dropped = 0\n        self._stale = [{} for _ in range(num_groups)]\n",
            ),
            Edit(
                "prefix_index.py",
                "                    del all_offered[group][block_hash]\n",
                "                    del all_offered[group][block_hash]\n"
                "                    self._stale[group][block_hash] = block\n",
            ),
            Edit(
                "prefix_index.py",
                "            del self.offered[group][block_hash]\n",
                "            del self.offered[group][block_hash]\n            self._stale[group][block_hash] = block\n",
            ),
            Edit("lookup.py", "if self._foremost is not None:", "if False:"),
            Edit(
                "lookup.py",
                "offered_prefix(self._index.offered[group], ",
                "offered_prefix({**self._index._stale[group], **self._index.offered[group]}, ",
            ),
        ),
    ),
    Fault(
        "a second free queues the blocks again",
        "FREE-2",
        (
            Edit(
                "allocator.py",
                "                self._pool.release(table)\n",
                "                self._pool.release(table)\n"
                '            self._tables["was " + request.request_id] = tables\n'
                '        elif "was " + request.request_id in self._tables:\n'
                '            for table in self._tables["was " + request.request_id].blocks:\n'
                "                again = self._pool.idle_among([block for block in table if block])\n"
                "                self._pool.queue.remove(again)\n"
                "                self._pool.queue.push_front(again)\n",
            ),
        ),
    ),
    Fault(
        "a refusal counts the tokens it did not give",
        "REFUSE-1",
        (
            Edit(
                "allocator.py",
                "queue.count - reserved_blocks:\n            return None\n",
                "queue.count - reserved_blocks:\n"
                "            if tables is not None and tables.cached is not None:\n"
                "                tables.cached = [count + 1 for count in tables.cached]\n"
                "            return None\n",
            ),
        ),
    ),
)
"""Four more that real allocators have had."""

OF_BATCHES: tuple[Fault, ...] = (
    Fault(
        "a batch serves the rows behind the first refusal",
        "BATCH-1",
        (
            Edit(
                "allocator.py",
                "            if left < 0:\n                return due[:position], row, missing\n",
                "            if left < 0:\n                left += lack * num_groups\n                lack = 0\n",
            ),
        ),
        ("full",),
    ),
)
"""One about the batched decode step."""

COPYING = ("partial", "partial:1", "partial,partial")

OF_COPIES: tuple[Fault, ...] = (
    Fault(
        "the source of a copy is not held",
        "COMMIT-1",
        (Edit("allocator.py", "            self._tails.pin_sources(adoption)\n", "            pass\n"),),
        COPYING,
    ),
    Fault(
        "the private block of a copy is not held for it",
        "POOL-2",
        (Edit("tails.py", "            self.refs[table[len(kept)]] += 1\n", ""),),
        COPYING,
    ),
    Fault(
        "the end of a hit is not copied",
        "MEM-2",
        (
            Edit(
                "tails.py",
                "        listed = list(self.copies)[self._taken :]\n",
                "        listed = list(self.copies)[self._taken + 1 :]\n",
            ),
        ),
        COPYING,
    ),
    Fault(
        "an idle source is not counted",
        "COUNT-2",
        (
            Edit(
                "tables.py",
                "        self.sources, self.idle_sources = sources, idle\n        self.num_idle += len(idle)\n",
                "        self.sources, self.idle_sources = sources, idle\n",
            ),
        ),
        COPYING,
    ),
    Fault(
        "parts are offered when they are scheduled",
        "HASH-1",
        (
            Edit(
                "allocator.py",
                "        self._commit(request, tables, 0 if delay_cache_blocks else end)\n",
                "        self._commit(request, tables, 0 if delay_cache_blocks else end)\n"
                "        if self._tails is not None and not delay_cache_blocks:\n"
                "            self._tails.store_parts(request, tables, min(end, len(request.token_ids)))\n",
            ),
        ),
        COPYING,
    ),
    Fault(
        "a reused block still offers the parts of what it held",
        "INDEX-1",
        (Edit("tails.py", "            for part in self.parts_of[block]:\n", "            for part in ():\n"),),
        COPYING,
    ),
    Fault(
        "the hash of a part ignores the salt",
        "LOOKUP-1",
        (
            Edit(
                "request.py",
                "BlockHasher(size, cache_salt, extra_keys) for size",
                "BlockHasher(size, None, extra_keys) for size",
            ),
        ),
        COPYING,
    ),
)
"""Seven about hits that end inside a block."""
