"""The command line, `slotproof`: one file a command, the rest is what they share."""


def main() -> None:
    """Run the command line; a fault of slotproof's own exits 2, because it says nothing about a target."""
    import sys
    import traceback

    from slotproof.conformance.cli.app import app

    try:
        app(prog_name="slotproof")
    except Exception:
        traceback.print_exc()
        print("slotproof: this is a fault of slotproof itself; please report it with the lines above.", file=sys.stderr)
        sys.exit(2)


__all__ = ["main"]
