"""Counts in words."""


def count_of(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
