"""An allocator as its engine holds it, with no adapter between: what is timed, and what serves whole workloads."""

from collections.abc import Sequence
from typing import Any, Protocol

from slotproof.spec.config import Config


class Bare(Protocol):
    """Makes managers and requests of one implementation.

    A manager has `allocate_slots`, `get_computed_blocks` and `free` with the names and keywords of vLLM's; what a
    request is, only the implementation knows.
    """

    name: str
    version: str

    def new_manager(self, config: Config) -> Any:
        """A manager with a new pool, its events off; the requests made from now on are hashed for it."""
        ...

    def new_request(self, request_id: str, token_ids: Sequence[int]) -> Any:
        """A waiting request, its full blocks hashed."""
        ...

    def new_request_of_keys(self, request_id: str, num_tokens: int, keys: Sequence[int]) -> Any:
        """A waiting request that stands for tokens nobody knows: a number stands for each full block's prefix."""
        ...

    def num_cached(self, manager: Any) -> int:
        """Blocks that carry a key."""
        ...

    def set_running(self, request: Any, num_computed_tokens: int) -> None:
        """What a scheduler notes after an admission."""
        ...

    def append(self, request: Any, token_ids: Sequence[int]) -> None:
        """Tokens were sampled; what they fill is hashed."""
        ...
