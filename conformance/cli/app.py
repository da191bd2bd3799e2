"""The application: its commands, and how it ends when the user made a mistake."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slotproof.conformance.cli import (
    bench,
    demo,
    diff,
    explain,
    explore,
    laws,
    mutate,
    new_adapter,
    prove,
    replay,
    verify,
)
from slotproof.conformance.cli.output import print_json, warn
from slotproof.conformance.errors import SetupError


class Commands(TyperGroup):
    """Turns a mistake in what the user gave into one line on standard error and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except SetupError as error:
            if ctx.obj is not None and ctx.obj.as_json:
                print_json({"verdict": "error", "error": str(error)})
            warn(f"slotproof: {error}")
            raise typer.Exit(2) from error


app = typer.Typer(
    name="slotproof",
    cls=Commands,
    help="Verify a paged-KV block allocator against the formal model of allocate_slots.",
    epilog="Start with: slotproof demo, then slotproof verify. Exit codes: 0 yes, 1 no, 2 it could not be asked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (verify, prove, explore, diff, mutate, replay, explain, laws, bench, new_adapter, demo):
    app.command(module.NAME, epilog=module.EXAMPLE)(module.command)


def _print_version(asked: bool) -> None:
    if asked:
        try:
            version = installed_version("slotproof")
        except PackageNotFoundError:
            version = "run from its sources, not installed"
        typer.echo(f"slotproof {version}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""
