"""Contracts for CrossHair on the specification's counts: a second engine, which shares Z3 with ours and nothing else.

Each one calls the specification and has one postcondition, over products, so that it does not restate the division.
CrossHair reads `pre:` and `post:`; only "Confirmed over all paths" counts, its silence is no confirmation.
"""

from slotproof.spec import admission, arithmetic, keys
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.pool import NO_KEY


def smaller(a: int, b: int) -> int:
    """The smaller one is one of the two and not above either.

    post: __return__ <= a and __return__ <= b and (__return__ == a or __return__ == b)
    """
    return arithmetic.imin(a, b)


def larger(a: int, b: int) -> int:
    """The larger one is one of the two and not below either.

    post: __return__ >= a and __return__ >= b and (__return__ == a or __return__ == b)
    """
    return arithmetic.imax(a, b)


def blocks_hold_the_tokens(tokens: int, block_size: int) -> int:
    """TABLE-1: the blocks hold the tokens.

    pre: tokens >= 0 and block_size >= 1
    post: __return__ * block_size >= tokens
    """
    return arithmetic.ceil_div(tokens, block_size)


def one_block_fewer_does_not(tokens: int, block_size: int) -> int:
    """TABLE-1: one block fewer does not hold the tokens.

    pre: tokens >= 1 and block_size >= 1
    post: (__return__ - 1) * block_size < tokens
    """
    return arithmetic.ceil_div(tokens, block_size)


def one_token_needs_at_most_one_block(tokens: int, block_size: int) -> int:
    """COUNT-3: one token more needs at most one block more.

    pre: tokens >= 0 and block_size >= 1
    post: __return__ == 0 or __return__ == 1
    """
    return arithmetic.ceil_div(tokens + 1, block_size) - arithmetic.ceil_div(tokens, block_size)


def slots_stay_in_the_model(computed: int, new: int, lookahead: int, longest: int) -> int:
    """TABLE-1: slots never reach past the model's length.

    pre: computed >= 0 and new >= 0 and lookahead >= 0 and longest >= 0
    post: __return__ <= longest
    """
    return arithmetic.slots_needed(computed, new, lookahead, longest)


def slots_cover_every_token(computed: int, new: int, lookahead: int, longest: int) -> int:
    """TABLE-1: slots end with the last token, or with the model.

    pre: computed >= 0 and new >= 0 and lookahead >= 0 and longest >= 0
    post: __return__ == longest or __return__ == computed + new + lookahead
    """
    return arithmetic.slots_needed(computed, new, lookahead, longest)


def only_finalized_tokens_are_cached(computed: int, new: int, num_tokens: int) -> int:
    """HASH-1: what is offered is finalized.

    pre: computed >= 0 and new >= 0 and num_tokens >= 0
    post: __return__ <= num_tokens
    """
    return arithmetic.tokens_to_cache(computed, new, num_tokens)


def drafts_offer_nothing(computed: int, new: int, drafts: int, num_tokens: int) -> bool:
    """HASH-3: drafts behind the finalized tokens change nothing.

    pre: computed >= 0 and new >= 0 and drafts >= 0 and num_tokens >= 0 and computed + new >= num_tokens
    post: __return__
    """
    without = arithmetic.tokens_to_cache(computed, new, num_tokens)
    return arithmetic.tokens_to_cache(computed, new + drafts, num_tokens) == without


def what_is_behind_the_window_is_not_read(settled: int, window: int) -> int:
    """SKIP-1: the window begins behind the tokens it leaves, unless it leaves none.

    pre: settled >= 0 and window >= 2
    post: __return__ == 0 or __return__ + window == settled + 1
    """
    return arithmetic.tokens_behind_window(settled, window)


def the_window_is_kept(block_size: int, window: int, settled: int) -> int:
    """SKIP-1: the first block that is kept ends behind the window's begin.

    pre: block_size >= 1 and window >= 2 and settled >= 0
    post: (__return__ + 1) * block_size > settled - window + 1
    """
    return admission.skipped_blocks(SlidingWindow(block_size, window), settled)


def the_cap_covers_the_window(window: int, in_flight: int, longest: int, block_size: int) -> int:
    """ADMIT-1: without its spare block the cap holds the window and what is in flight, or the model's length.

    pre: window >= 2 and in_flight >= 1 and longest >= 1 and block_size >= 1
    post: (__return__ - 1) * block_size >= window - 1 + in_flight or (__return__ - 1) * block_size >= longest
    """
    return arithmetic.window_admission_cap(window, in_flight, longest, block_size)


def the_charge_is_no_more_than_required(
    block_size: int, window: int, required: int, in_flight: int, longest: int
) -> int:
    """ADMIT-1: a window group charges no more than its length requires.

    pre: block_size >= 1 and window >= 2 and required >= 0 and in_flight >= 1 and longest >= 1
    post: __return__ <= required
    """
    return SlidingWindow(block_size, window).capped(required, in_flight, longest)


def full_attention_has_no_cap(block_size: int, required: int, in_flight: int, longest: int) -> int:
    """ADMIT-1: full attention charges what its length requires.

    pre: block_size >= 1 and required >= 0 and in_flight >= 1 and longest >= 1
    post: __return__ == required
    """
    return FullAttention(block_size).capped(required, in_flight, longest)


def a_window_hit_holds_the_window(window: int, block_size: int) -> int:
    """LOOKUP-1: the blocks of a window hit hold all that the next token reads before itself.

    pre: window >= 2 and block_size >= 1
    post: __return__ * block_size >= window - 1
    """
    return arithmetic.blocks_for_window_hit(window, block_size)


def a_window_hit_has_no_block_too_many(window: int, block_size: int) -> int:
    """LOOKUP-1: one block fewer does not hold it.

    pre: window >= 2 and block_size >= 1
    post: (__return__ - 1) * block_size < window - 1
    """
    return arithmetic.blocks_for_window_hit(window, block_size)


def a_short_hit_is_read_whole(block_size: int, window: int, length: int) -> int:
    """LOOKUP-1: a hit that ends with fewer blocks than the window reads is read from its begin.

    pre: block_size >= 1 and window >= 2 and length >= 0
    post: __return__ == length or __return__ * block_size >= window - 1
    """
    return SlidingWindow(block_size, window).blocks_read(length)


def what_is_missing_is_not_negative(required: int, skipped: int, present: int) -> int:
    """COUNT-1: no fewer than no blocks are missing.

    pre: required >= 0 and skipped >= 0 and present >= 0
    post: __return__ >= 0
    """
    return arithmetic.blocks_missing(required, skipped, present)


def what_is_missing_is_exact(required: int, skipped: int, present: int) -> int:
    """COUNT-1: what is required is skipped, present, or popped.

    pre: required > skipped and required > present and skipped >= 0 and present >= 0
    post: __return__ + skipped == required or __return__ + present == required
    """
    return arithmetic.blocks_missing(required, skipped, present)


def equality_admits(needed: int, watermark: int, reserved: int) -> bool:
    """REFUSE-2: a need that just fits is not short.

    pre: needed >= 0 and watermark >= 0 and reserved >= 0
    post: not __return__
    """
    return arithmetic.is_short(needed, watermark, needed + watermark + reserved, reserved)


def one_block_more_is_refused(needed: int, watermark: int, reserved: int) -> bool:
    """REFUSE-2: a need of one block more than fits is short.

    pre: needed >= 1 and watermark >= 0 and reserved >= 0
    post: __return__
    """
    return arithmetic.is_short(needed, watermark, needed - 1 + watermark + reserved, reserved)


def what_is_admitted_leaves_the_reserve(needed: int, watermark: int, free: int, reserved: int) -> bool:
    """ADMIT-3: a need is short, or reserve and watermark are still free when it has been taken.

    pre: needed >= 0 and watermark >= 0 and free >= 0 and reserved >= 0
    post: __return__ or free - needed >= reserved + watermark
    """
    return arithmetic.is_short(needed, watermark, free, reserved)


def a_key_stands_for_one_prefix(prefix: int, group: int, other: int, other_group: int) -> bool:
    """INDEX-1: of two groups, different blocks have different keys.

    pre: prefix >= 0 and other >= 0 and group >= 0 and group < 2 and other_group >= 0 and other_group < 2
    post: not __return__ or (prefix == other and group == other_group)
    """
    return keys.block_key(prefix, group, 2) == keys.block_key(other, other_group, 2)


def no_key_is_the_sign_of_none(prefix: int, group: int, num_groups: int) -> bool:
    """INDEX-1: no key is the sign of having none.

    pre: prefix >= 0 and group >= 0 and group < num_groups
    post: not __return__
    """
    return keys.block_key(prefix, group, num_groups) == NO_KEY


def the_next_chunk_fits(
    prompt: int, computed: int, new: int, present: int, idle: int, watermark: int, free: int, longest: int
) -> bool:
    """ADMIT-1: with full attention and blocks of 16 tokens, if the whole prompt fits, so does a chunk of it.

    pre: prompt >= 1 and computed >= 0 and new >= 0 and present >= 0 and idle >= 0 and watermark >= 0 and free >= 0
    pre: longest >= 1 and computed + new <= prompt and computed + new <= longest
    post: __return__
    """
    whole = arithmetic.ceil_div(arithmetic.imin(prompt, longest), 16)
    chunk = arithmetic.ceil_div(arithmetic.slots_needed(computed, new, 0, longest), 16)
    whole_is_short = arithmetic.is_short(arithmetic.blocks_missing(whole, 0, present) + idle, watermark, free, 0)
    return whole_is_short or not arithmetic.is_short(
        arithmetic.blocks_missing(chunk, 0, present) + idle, watermark, free, 0
    )
