"""JSON from outside: read strictly, so that nothing in it is guessed, dropped or does harm."""

from __future__ import annotations

import json
from typing import Any

from gearshift.schemas.encoding import Misfit


def read_json(text: bytes | str) -> Any:
    """What the text says; Misfit if it is no JSON, or says a name twice, or a number that JSON does not have.

    >>> read_json('{"load_kw": 2.5}')
    {'load_kw': 2.5}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    gearshift.schemas.encoding.Misfit: field a: stands there twice
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise Misfit("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Misfit(f"is not UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise Misfit("holds a number of more than 4300 digits") from None
        raise Misfit(f"not readable as JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Misfit("stands there twice", (name[:100],))
            seen.add(name)
    return found


def _no_number(word: str) -> Any:
    raise Misfit(f"{word} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
