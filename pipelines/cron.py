"""Cron expressions of six fields, seconds first, as the scheduler of Kubeflow Pipelines reads them."""

import re
from datetime import datetime

from cronsim import CronSim, CronSimError

from ease_lib.errors import ConfigError

FIELDS = "second, minute, hour, day of month, month, day of week"
OTHER_DIALECT = re.compile(r"[L#]|(?<![/\d])7", re.IGNORECASE)
"""Finds what cronsim accepts and Kubeflow refuses in a field of days: last days, numbered weekdays, Sunday as 7."""


def next_start(cron: str, after: datetime) -> datetime:
    """The first time that a cron expression names after a moment, in its time zone.

    Raises:
        ConfigError: with the expression, its wrong field and the remedy.
    """
    parts = cron.split()
    if len(parts) != 6:
        remedy = f"put the seconds first: `0 {cron}`" if len(parts) == 5 else "e.g. `0 30 2 * * *` is 02:30 every day"
        raise ConfigError(f"cron={cron} has {len(parts)} fields, not six ({FIELDS}); {remedy}")
    if OTHER_DIALECT.search(parts[3]) or OTHER_DIALECT.search(parts[5]):
        raise ConfigError(
            f"cron={cron}: Kubeflow knows neither L nor # nor 7 for Sunday; write days as numbers, Sunday as 0"
        )
    try:
        times = CronSim(" ".join("*" if part == "?" else part for part in parts), after)
        if len(times.seconds) > 1:
            raise ConfigError(f"cron={cron} starts {len(times.seconds)} runs a minute; give one second, e.g. 0")
        return next(times)
    except CronSimError as error:
        raise ConfigError(
            f"cron={cron}: {str(error).lower()}; its fields are {FIELDS}, e.g. `0 30 2 * * MON-FRI`"
        ) from error
    except StopIteration:
        raise ConfigError(f"cron={cron} names no time in the next 50 years; change its days or months") from None
