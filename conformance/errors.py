"""What goes wrong before a verdict: the message is one sentence for the user (what, where, what to do), the exit code
is 2.
"""


class SetupError(Exception):
    """A mistake in what the user gave, or something missing in the environment."""


class AdapterError(SetupError):
    """The adapter is broken, which says nothing about the allocator behind it."""
