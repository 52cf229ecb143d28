"""Cron expressions of six fields, seconds first, as the scheduler of Kubeflow Pipelines reads them.

A parser of our own, because the ones at hand read other dialects (five fields, seconds last, Sunday as 7) and would
accept what the cluster refuses; every error names field, value and limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from ease_lib.errors import ConfigError

_FOUR_YEARS = 4 * 366
"""Days after which every date that exists has come, the 29th of February too."""


@dataclass(frozen=True, kw_only=True)
class CronField:
    """One field of a cron expression: its name, its least and most value, the words for values."""

    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
CRON_FIELDS = (
    CronField(name="second", low=0, high=59),
    CronField(name="minute", low=0, high=59),
    CronField(name="hour", low=0, high=23),
    CronField(name="day of month", low=1, high=31),
    CronField(name="month", low=1, high=12, words=MONTHS),
    CronField(name="day of week", low=0, high=6, words=WEEKDAYS),
)


@dataclass(frozen=True, kw_only=True)
class Cron:
    """A checked cron expression: the values that each field allows."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Day of month and day of week are both given: a day that fits one of them is enough, as in every cron."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, in its time zone; None if there is none, like 31 February."""
        for ahead in range(_FOUR_YEARS * 2 + 1):  # 29 February is skipped once a century
            date = (moment + timedelta(days=ahead)).date()
            if not self._fits(date.month, date.day, date.isoweekday() % 7):
                continue
            for clock in self._clocks():
                start = datetime.combine(date, clock, moment.tzinfo)
                if start > moment:
                    return start
        return None

    def _fits(self, month: int, day: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        if self.either_day:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays

    def _clocks(self) -> Iterator[time]:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                for second in sorted(self.seconds):
                    yield time(hour, minute, second)


def parse_cron(text: str) -> Cron:
    """Check a cron expression of six fields, seconds first, as the scheduler of Kubeflow Pipelines reads it.

    Raises:
        ConfigError: naming field, value and limit of everything that is wrong.
    """
    parts = text.split()
    if len(parts) != len(CRON_FIELDS):
        remedy = f"put a second in front: `0 {text}`" if len(parts) == 5 else "e.g. `0 30 2 * * *` is 02:30 every day"
        names = ", ".join(field.name for field in CRON_FIELDS)
        raise ConfigError(f"cron={text} has {len(parts)} fields, not six ({names}); {remedy}")
    problems: list[str] = []
    values = []
    for field, part in zip(CRON_FIELDS, parts, strict=True):
        try:
            values.append(_field_values(field, part))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    seconds, minutes, hours, days, months, weekdays = values
    if len(seconds) > 1:
        raise ConfigError(f"cron second={parts[0]} starts {len(seconds)} runs a minute; give one second, e.g. 0")
    any_day = any(sign in part for sign in "*?" for part in (parts[3], parts[5]))
    cron = Cron(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        either_day=not any_day,
    )
    if cron.next_after(datetime.now(UTC)) is None:
        raise ConfigError(f"cron={text} never comes: no month of {parts[4]} has a day {parts[3]}; change one of them")
    return cron


def _field_values(field: CronField, text: str) -> frozenset[int]:
    """The values that one field allows: `*`, `?`, `5`, `1-5`, `*/15`, `10-50/20`, `MON-FRI`, and lists of those."""
    return frozenset(value for part in text.split(",") for value in _part_values(field, part))


def _part_values(field: CronField, text: str) -> range:
    said = f"cron {field.name}={text or '(empty)'}"
    span, slash, step_text = text.partition("/")
    step = int(step_text) if step_text.isascii() and step_text.isdigit() else 0
    if slash and step < 1:
        raise ConfigError(f"{said}: the step {step_text or '(empty)'} is not a whole number from 1")
    if span in ("*", "?"):
        return range(field.low, field.high + 1, step or 1)
    first, dash, last = span.partition("-")
    low = _field_value(field, first, said)
    high = _field_value(field, last, said) if dash else (field.high if slash else low)
    if high < low:
        raise ConfigError(f"{said}: the range ends before it begins; write {last}-{first}, or a list")
    return range(low, high + 1, step or 1)


def _field_value(field: CronField, text: str, said: str) -> int:
    if text.upper() in field.words:
        return field.words.index(text.upper()) + field.low
    words = f", or {field.words[0]} to {field.words[-1]}" if field.words else ""
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{said}: {text or '(empty)'} is not a number from {field.low} to {field.high}{words}")
    if not field.low <= int(text) <= field.high:
        hint = "; Sunday is 0" if field.words == WEEKDAYS and text == "7" else ""
        raise ConfigError(f"{said}: {text} is not from {field.low} to {field.high}{words}{hint}")
    return int(text)
