"""`slotproof new-adapter`: a skeleton to fill in."""

import keyword
import sys
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import print_json, write_whole
from slotproof.conformance.errors import SetupError

NAME = "new-adapter"
EXAMPLE = "Example: slotproof new-adapter my_allocator, then python my_allocator.py"

SKELETON = '''\
"""The adapter of {name}: fill in the five calls until `python {name}.py` is content."""

import sys

from slotproof.conformance.adapter import BlockIds, Profile, RequestView
from slotproof.conformance.errors import AdapterError
from slotproof.conformance.smoke import smoke_check
from slotproof.spec.config import Config


class {class_name}:
    profile = Profile(name="{name}")  # say here how it differs; every flag is explained at Profile

    def reset(self, config: Config) -> None:
        # A fresh pool: config.num_blocks (one of them the null block), config.block_size, config.max_model_len, …
        raise NotImplementedError("make your allocator here")

    def allocate_slots(self, request: RequestView, num_new_tokens: int) -> BlockIds | None:
        # Slots for the first request.num_computed_tokens + num_new_tokens tokens: the ids of the new blocks, or None.
        # Add the parameters your allocator has, by these names: hit, num_lookahead_tokens,
        # num_external_computed_tokens, delay_cache_blocks, full_sequence_must_fit, reserved_blocks, has_scheduled_reqs.
        raise NotImplementedError("call your allocator here")

    def free(self, request: RequestView) -> None:
        raise NotImplementedError("give the blocks of request.request_id back here")

    def block_table(self, request: RequestView) -> BlockIds:
        # All blocks of the request in the order of its tokens, empty if it has none.
        raise NotImplementedError("look up the blocks of request.request_id here")

    def num_free_blocks(self) -> int:
        raise NotImplementedError("count the blocks that a request could take now")


def factory() -> {class_name}:
    return {class_name}()


if __name__ == "__main__":
    try:
        smoke_check(factory())
    except AdapterError as error:
        sys.exit(str(error))
    print("The smoke check passed; next: slotproof verify {name}:factory")
'''

Name = Annotated[str, typer.Argument(help="The module to write; a Python name.")]


def command(name: Name, as_json: AsJson = False) -> None:
    """Write NAME.py: an adapter to fill in, with a smoke check that tells what is missing.

    Nothing is overwritten.
    """
    path = Path(f"{name}.py")
    require_module_name(name)
    if path.exists():
        raise SetupError(f"{path} is already there; choose another name or move it away")
    try:
        write_whole(path, skeleton(name))
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}; run this in a folder of yours") from error
    if as_json:
        print_json({"file": str(path), "smoke_check": f"python {path}", "verify": f"slotproof verify {name}:factory"})
    else:
        typer.echo(f"Written: {path}. Fill in its five calls until `python {path}` is content,")
        typer.echo(f"then run: slotproof verify {name}:factory")


def require_module_name(name: str) -> None:
    """Raises SetupError unless a module can be called so without hiding another."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SetupError(f"{name!r} is no name for a Python module; use letters, digits and _, as in my_allocator")
    if name in sys.stdlib_module_names or name == "slotproof":
        raise SetupError(
            f"a module called {name} would hide the one that Python or slotproof needs; choose another name"
        )


def skeleton(name: str) -> str:
    """The text of the module."""
    class_name = "".join(part.capitalize() for part in name.split("_") if part) + "Adapter"
    return SKELETON.format(name=name, class_name=class_name)
