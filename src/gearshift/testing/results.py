"""What a pipeline wrote in each gear, and one assertion for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from gearshift.errors import DefinitionError
from gearshift.freshness import Gear

Key = Callable[[Any], Hashable] | str | tuple[str, ...]

_SHOWN = 5


class Results(Mapping[Gear, list[Any]]):
    """The values that a pipeline wrote, by gear, in the order of the target.

    >>> results = Results({Gear.BATCH: [{"meter": "a", "kwh": 1}, {"meter": "a", "kwh": 3}]}, key=("meter",))
    >>> results.last(Gear.BATCH)
    {'a': {'meter': 'a', 'kwh': 3}}
    >>> results.assert_each([{"meter": "a", "kwh": 3}])
    """

    def __init__(
        self,
        values: Mapping[Gear, list[Any]],
        *,
        key: tuple[str, ...] = (),
        dead_letters: Mapping[Gear, list[str]] | None = None,
    ) -> None:
        self._values = dict(values)
        self._key = key
        self.dead_letters: dict[Gear, list[str]] = dict(dead_letters or {})
        """The reasons of the dead letters of each gear: of records that were not decoded and of rows that did not fit."""

    @property
    def gears(self) -> tuple[Gear, ...]:
        """The gears that ran."""
        return tuple(self._values)

    def last(self, gear: Gear | str, key: Key | None = None) -> dict[Hashable, Any]:
        """The last value of each key in a gear; the key is the target's own unless given."""
        by = self._key_of(key)
        return {by(value): value for value in self[gear]}

    def assert_each(self, expected: Iterable[Any], key: Key | None = None) -> None:
        """Assert, for every gear that ran, that the last value of each key is the expected one and no key is missing.

        `key` is a function of a value, or the names of fields; by default the key of the target. A dict is compared by
        the fields that it names, and a field may be a `pytest.approx`.
        """
        __tracebackhide__ = True
        by = self._key_of(key)
        wanted: dict[Hashable, Any] = {}
        for value in expected:
            if by(value) in wanted:
                raise DefinitionError(
                    f"two expected values have the key {by(value)!r}", hint="give key= more fields"
                )
            wanted[by(value)] = value
        problems = [line for gear in self.gears for line in self._differences(gear, wanted, by)]
        if problems:
            raise AssertionError("\n".join(problems))

    def _differences(
        self, gear: Gear, wanted: Mapping[Hashable, Any], by: Callable[[Any], Hashable]
    ) -> list[str]:
        found = {by(value): value for value in self._values[gear]}
        lines = [f"  {key!r} is missing: {wanted[key]!r}" for key in wanted if key not in found]
        lines += [f"  {key!r} is not expected: {found[key]!r}" for key in found if key not in wanted]
        lines += [
            f"  {key!r} is {found[key]!r}\n  {' ' * len(repr(key))} not {wanted[key]!r}"
            for key in wanted
            if key in found and not _same(found[key], wanted[key])
        ]
        if not lines:
            return []
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        letters = self.dead_letters.get(gear, [])
        if letters:
            more.append(f"  {len(letters)} dead letters: {'; '.join(dict.fromkeys(letters))[:300]}")
        return [f"{gear}: {len(lines)} of {len(wanted)} keys differ", *lines[:_SHOWN], *more]

    def _key_of(self, key: Key | None) -> Callable[[Any], Hashable]:
        if callable(key):
            return key
        names = (key,) if isinstance(key, str) else key or self._key
        if not names:
            raise DefinitionError(
                "the target has no key by which to compare values", hint='give one: key="meter_id"'
            )

        def by(value: Any) -> Hashable:
            found = tuple(_field(value, name) for name in names)
            return found[0] if len(found) == 1 else found

        return by

    def __getitem__(self, gear: Gear | str) -> list[Any]:
        try:
            return self._values[Gear.named(gear)]
        except KeyError:
            raise KeyError(f"{gear} did not run; {', '.join(self.gears)} did") from None

    def __iter__(self) -> Iterator[Gear]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return (
            f"Results({', '.join(f'{gear}: {len(values)} values' for gear, values in self._values.items())})"
        )


def _field(value: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", value)[name] if isinstance(value, Mapping) else getattr(value, name)


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        named = cast("Mapping[str, Any]", wanted)
        try:
            return all(_field(found, name) == value for name, value in named.items())
        except (AttributeError, KeyError):
            return False
    if is_dataclass(wanted) and isinstance(found, Mapping):
        row = cast("Mapping[str, Any]", found)
        return all(row.get(each.name) == getattr(wanted, each.name) for each in fields(wanted))
    return bool(found == wanted)
