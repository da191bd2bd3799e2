"""The pool that calls are timed on: every block was used before, and most carry a key."""

from typing import Any

from slotproof.conformance.bare import Bare
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

BLOCK_SIZE = 16
PROMPT_TOKENS = 2048
PROMPT_BLOCKS = PROMPT_TOKENS // BLOCK_SIZE
MAX_MODEL_LEN = 8 * PROMPT_TOKENS


class World:
    """One manager with full attention and prefix caching, and the means to bring it into the state a case needs."""

    def __init__(self, bare: Bare, num_blocks: int) -> None:
        config = Config(num_blocks, (FullAttention(BLOCK_SIZE),), MAX_MODEL_LEN, MAX_MODEL_LEN)
        self.bare = bare
        self.manager: Any = bare.new_manager(config)
        self._num_usable = num_blocks - 1
        self._num_prompts = 0
        self.release(self.exhaust())

    def prompt(self, num_tokens: int) -> Any:
        """A waiting request that shares no prefix with any other."""
        self._num_prompts += 1
        # The chain of hashes carries the first token into every block.
        return self.bare.new_request(str(self._num_prompts), [self._num_prompts, *[7] * (num_tokens - 1)])

    def same_prompt(self, request: Any, num_tokens: int) -> Any:
        """A waiting request with the prefix of an earlier prompt, and of any length."""
        tokens = [int(request.request_id), *[7] * (num_tokens - 1)]
        return self.bare.new_request(f"{request.request_id} again", tokens)

    def admitted(self, num_tokens: int) -> Any:
        """A running request whose tokens are all computed."""
        request = self.prompt(num_tokens)
        if self.manager.allocate_slots(request=request, num_new_tokens=num_tokens) is None:
            raise ValueError(f"the pool is too small for {num_tokens} more tokens")
        self.bare.set_running(request, num_tokens)
        return request

    def sampled(self, num_computed_tokens: int) -> Any:
        """A running request with one token to compute."""
        request = self.admitted(num_computed_tokens)
        self.bare.append(request, [7])
        return request

    def exhaust(self) -> list[Any]:
        """Running requests that hold the whole pool. It must be free."""
        full, rest = divmod(self._num_usable, PROMPT_BLOCKS)
        sizes = [PROMPT_TOKENS] * full + [rest * BLOCK_SIZE] * (rest > 0)
        return [self.admitted(size) for size in sizes]

    def release(self, requests: list[Any]) -> None:
        """All of them ended."""
        for request in requests:
            self.manager.free(request)
