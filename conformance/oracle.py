"""The content oracle: for each block and slot, which exact token prefix was written there.

An allocator never sees content, so it cannot be asked about it. The oracle writes what the forward passes would write,
in the order in which they are scheduled, and checks every hit and every table against it.
"""

from collections.abc import Sequence

from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.request import Request

Content = int
"""A name for one exact prefix: its tokens, salt and extra keys."""

UNKNOWN: Content = -1
"""What a step writes for tokens that are not sampled yet."""


class ContentOracle:
    """What was written where."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._names: dict[tuple[Content, object], Content] = {}
        self._prefixes: list[tuple[Content, object]] = []
        self._slots: dict[int, list[Content]] = {}

    def contents(self, request: Request, drafts: tuple[int, ...] = ()) -> list[Content]:
        """The content of each position of a request, draft tokens behind its finalized ones."""
        content = self._name(UNKNOWN, (request.cache_salt, request.extra_keys))
        contents = []
        for token in request.token_ids + drafts:
            content = self._name(content, token)
            contents.append(content)
        return contents

    def write(self, tables: Sequence[Sequence[int]], contents: Sequence[Content], start: int, end: int) -> None:
        """A step computes, or a connector loads, positions `start` to `end - 1` of a request with these tables."""
        for entries in tables:
            for position in range(start, min(end, len(entries) * self._block_size)):
                block = entries[position // self._block_size]
                if block != NULL_BLOCK:
                    content = contents[position] if position < len(contents) else UNKNOWN
                    self._slots.setdefault(block, self._blank())[position % self._block_size] = content

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """The worker copies blocks, all of them as they were before."""
        held = [list(self._slots.get(source, self._blank())) for source, _ in pairs]
        for (_, destination), contents in zip(pairs, held, strict=True):
            self._slots[destination] = contents

    def misread(self, tables: Sequence[Sequence[int]], contents: Sequence[Content], end: int) -> str | None:
        """What reading the positions before `end` through these tables finds that is not the request's own prefix."""
        for entries in tables:
            if len(entries) * self._block_size < end:
                return f"{end} tokens are read through a table of {len(entries)} blocks"
            for position in range(end):
                block = entries[position // self._block_size]
                if block == NULL_BLOCK:
                    continue
                found = self._slots.get(block, self._blank())[position % self._block_size]
                if found != contents[position]:
                    wanted, held = self._words(contents[position]), self._words(found)
                    return f"block {block} is read for position {position} of [{wanted}] and holds [{held}]"
        return None

    def _blank(self) -> list[Content]:
        return [UNKNOWN] * self._block_size

    def _name(self, parent: Content, token: object) -> Content:
        prefix = (parent, token)
        name = self._names.get(prefix)
        if name is None:
            name = self._names[prefix] = len(self._prefixes)
            self._prefixes.append(prefix)
        return name

    def _words(self, content: Content) -> str:
        if content == UNKNOWN:
            return "nothing known"
        tokens: list[str] = []
        while content != UNKNOWN:
            content, token = self._prefixes[content]
            tokens.append(str(token))
        *written, origin = tokens
        salted = "" if origin == "(None, ())" else f" under {origin}"
        return " ".join(reversed(written)) + salted
