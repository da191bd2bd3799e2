"""The integers behind an admission: every count `allocate_slots` compares, and nothing else.

All functions are total on non-negative integers with a positive block size; tokens and blocks are the only units.
"""


def imin(a: int, b: int) -> int:
    """The smaller of two integers."""
    return a if a <= b else b


def imax(a: int, b: int) -> int:
    """The larger of two integers."""
    return a if a >= b else b


def ceil_div(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return (tokens + block_size - 1) // block_size


def slots_needed(computed: int, new: int, lookahead: int, max_model_len: int) -> int:
    """Tokens that need a slot after the call; lookahead never reaches past the model's length (TABLE-1)."""
    return imin(computed + new + lookahead, max_model_len)


def tokens_to_cache(computed: int, new: int, num_tokens: int) -> int:
    """Tokens whose full blocks get keys: what will be computed (HASH-2), but finalized tokens only (HASH-1), however
    many drafts come with them (HASH-3).
    """
    return imin(computed + new, num_tokens)


def tokens_behind_window(settled: int, window: int) -> int:
    """Leading tokens that the next token, attending to itself and `window - 1` before it, no longer reads (SKIP-1)."""
    return imax(settled - window + 1, 0)


def window_admission_cap(window: int, max_in_flight: int, max_model_len: int, block_size: int) -> int:
    """Blocks a window group holds at most for one request; one more for a window that starts inside a block
    (ADMIT-1).
    """
    return ceil_div(imin(window - 1 + max_in_flight, max_model_len), block_size) + 1


def blocks_for_window_hit(window: int, block_size: int) -> int:
    """Consecutive cached blocks that let a window group resume at a block boundary (LOOKUP-1)."""
    return ceil_div(window - 1, block_size)


def blocks_missing(required: int, skipped: int, present: int) -> int:
    """Blocks to pop: those required, less the leading ones that are skipped or already there, whichever is more."""
    return imax(required - imax(skipped, present), 0)


def is_short(needed: int, watermark: int, free: int, reserved: int) -> bool:
    """Whether a need cannot be met beside watermark and reserve (ADMIT-3); equality admits (REFUSE-2)."""
    return needed + watermark > free - reserved
