"""Values of the protocol between the suite and a child process that both kinds of target share."""

from typing import Any

from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import SetupError
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, Group, SlidingWindow

Message = dict[str, Any]


def describe(error: Exception) -> Message:
    """An exception as it travels."""
    name = "SetupError" if isinstance(error, SetupError) else type(error).__name__
    return {"type": name, "message": str(error)}


def profile_on_wire(profile: Profile) -> Message:
    """A profile as JSON; refusals by name."""
    flags = {name: getattr(profile, name) for name in profile.__dataclass_fields__}
    return flags | {"refusals": [kind.__name__ for kind in profile.refusals]}


def config_on_wire(config: Config) -> Message:
    """A configuration as JSON."""
    return {
        "num_blocks": config.num_blocks,
        "groups": [_group_on_wire(group) for group in config.groups],
        "max_model_len": config.max_model_len,
        "max_in_flight_tokens": config.max_in_flight_tokens,
        "watermark_blocks": config.watermark_blocks,
        "caching": config.caching,
        "free_order": str(config.free_order),
        **({"hash_size": config.hash_size} if config.hash_size is not None else {}),
    }


def _group_on_wire(group: Group) -> Message:
    match group:
        case FullAttention():
            return {"kind": "full", "block_size": group.block_size}
        case SlidingWindow():
            return {"kind": "window", "block_size": group.block_size, "window": group.window}
        case _:
            raise SetupError(
                f"A {type(group).__name__} group cannot be sent to another process; use full or window groups."
            )


def config_from_wire(wire: Message) -> Config:
    """The configuration of a message."""
    return Config(
        **wire | {"groups": tuple(map(_group_from_wire, wire["groups"])), "free_order": FreeOrder(wire["free_order"])}
    )


def _group_from_wire(wire: Message) -> Group:
    if wire["kind"] == "window":
        return SlidingWindow(wire["block_size"], wire["window"])
    return FullAttention(wire["block_size"])
