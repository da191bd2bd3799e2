"""Pickling of what worlds and allocators hold and pickle does not know: read-only mappings, compiled structs."""

import copyreg
import io
import pickle
from struct import Struct
from types import MappingProxyType
from typing import Any


def freeze(value: object) -> bytes:
    """The value as bytes that `pickle.loads` reads.

    Raises:
        Exception: of whatever type pickle raises, when something in it cannot be copied.
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {
        **copyreg.dispatch_table,
        MappingProxyType: lambda mapping: (read_only, (dict(mapping),)),
        Struct: lambda struct: (Struct, (struct.format,)),
    }
    pickler.dump(value)
    return file.getvalue()


def read_only(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """A read-only mapping; its own type has no name that pickle finds."""
    return MappingProxyType(items)
