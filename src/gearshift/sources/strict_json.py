"""Parses untrusted JSON strictly, so that nothing in it is guessed or dropped."""

from __future__ import annotations

import json
from typing import Any

from gearshift.schemas.encoding import Misfit


def read_json(text: bytes | str) -> Any:
    """Parse a text; Misfit if it is not valid JSON, repeats a name, or contains NaN or Infinity.

    >>> read_json('{"load_kw": 2.5}')
    {'load_kw': 2.5}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    gearshift.schemas.encoding.Misfit: field a: appears twice
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise Misfit("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Misfit(f"is not UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise Misfit("contains a number of more than 4300 digits") from None
        raise Misfit(f"not valid JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Misfit("appears twice", (name[:100],))
            seen.add(name)
    return found


def _refuse_constant(constant: str) -> Any:
    raise Misfit(f"{constant} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
