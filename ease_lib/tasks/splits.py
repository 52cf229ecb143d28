"""Deal the rows of a source into pool, validation and test set, by seed.

Rows with equal inputs (`ease_lib.equality`) always stay together, because a row that the search saw in one split would
not be new in another. If a source has its own splits, rows drawn for the test set are removed from the others, and rows
drawn for the validation set from the pool; or they are kept, as in the paper's data.

Rows with the same value in the `group_column` stay in one split, like equal inputs; rows linked by either are one
group. With a `time_column` the newest groups are the test set, those before them the validation set, and the pool is
drawn from all older ones. A group is as new as its newest row, equally new rows are divided by seed, and classes are
ignored.

If there are few different outputs, every split has each of them in the proportion of the source, and at least once if
rows allow it. In 20 rows drawn at random, classes would be missing, and a winner that does not know them could be the
best.

In file order nothing is drawn: the splits of a source give their first rows, as in the authors' code (the first 100 of
`induce` and 20 of `valid`). Of a single file the pool gets the first rows, the test set the last, and the validation
set those before the test set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ease_lib.equality import as_read, equality_key
from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar, Moment, Row, TaskData, TaskSource

PAPER_POOL = 100
MOST_CLASSES = 20
"""Number of different outputs above which outputs are not classes."""
ROWS_OF_A_CLASS = 4
"""Mean number of rows per output from which on outputs are classes."""
SMALL_TABLE = 500
"""Number of rows up to which the pool takes all that remain, unless a size is set."""
AUTOMATIC, EVERYTHING = -1, 0
"""Values of `pool_size`; the first of the two other sizes too."""
FEWEST_VALIDATION_ROWS, MOST_VALIDATION_ROWS, MOST_TEST_ROWS = 20, 200, 100
"""Sizes unless set; a small table has fewer validation rows, so that every split has some."""


def deal(
    source: TaskSource,
    *,
    pool_size: int,
    validation_size: int,
    test_size: int,
    seed: int,
    in_file_order: bool = False,
    keep_leaks: bool = False,
) -> TaskData:
    """Draw the three sets without replacement.

    Args:
        pool_size: rows of the pool; 0 takes all that remain, and -1 too where they are at most `SMALL_TABLE`, else the
            paper's 100. The two other sets are drawn first, so that their rows do not depend on `pool_size`.
        validation_size: -1 takes a third of the rows that the test set leaves, no fewer than 20 where the pool keeps
            half of them, or the source's own validation rows; no more than 200.
        test_size: -1 takes a third of the rows, or the source's own test rows; no more than 100.
        in_file_order: take rows as they stand, whatever their classes; for sources without groups and times.
        keep_leaks: leave rows in a split of the source whose inputs are drawn for another.

    Raises:
        DataError: naming the split, the rows wanted and the rows there are; or when there are fewer groups than splits.
    """
    leaks = _Leaks(source, keep=keep_leaks)
    sizes = {"test": test_size, "validation": validation_size}
    own = {"test": source.test, "validation": source.validation}
    drawn: dict[str, list[Row]] = {}
    for split, of_source in own.items():
        if of_source is not None:
            fresh = leaks.without(split, of_source)
            size = sizes[split] = _size_of(split, sizes[split], len(fresh), is_own=True)
            if len(fresh) < size:
                raise DataError(
                    f"{source.name} has {len(fresh)} {split} rows, fewer than {split}_size={size}; lower {split}_size"
                )
            drawn[split] = list(fresh[:size]) if in_file_order else _Groups(fresh, seed, split).take(size)
            leaks.taken(drawn[split])
    rows = leaks.without("pool", source.rows)
    left = _Groups(rows, None if in_file_order else seed, "rows")
    shared = [split for split, of_source in own.items() if of_source is None]
    _check_groups(source, left.number, 1 + len(shared))
    for number, split in enumerate(shared):
        size = sizes[split] = _size_of(split, sizes[split], len(left), is_own=False)
        take = left.take_newest if source.time_column else left.take_last if in_file_order else left.take
        drawn[split] = take(size, leave=len(shared) - number)
    pool_rows = len(left) if pool_size == EVERYTHING else pool_size
    if pool_size == AUTOMATIC:
        pool_rows = len(left) if len(left) <= SMALL_TABLE else PAPER_POOL
    pool = list(rows[:pool_rows]) if in_file_order and not shared else left.parted(seed).take(pool_rows)
    lacking = any(len(drawn[split]) < sizes[split] for split in own)
    if lacking or len(pool) < max(pool_rows, 1):
        wanted = {"pool": max(pool_size, 1)} | {
            split: sizes[split] for split in ("validation", "test") if split in shared
        }
        raise _too_few(source, len(rows), left, wanted)
    pool_set = _numbered(pool, 0)
    validation_set = _numbered(drawn["validation"], len(pool))
    test_set = _numbered(drawn["test"], len(pool) + len(validation_set))
    return TaskData(
        name=source.name,
        metric=source.metric,
        pool=pool_set,
        validation=validation_set,
        test=test_set,
        unused=source.left_out + len(rows) - sum(len(drawn[split]) for split in shared) - len(pool),
        classes=_class_counts(rows, pool, drawn["validation"], drawn["test"]),
        notices=(*source.notices, *leaks.notices),
    )


def _too_few(source: TaskSource, rows: int, groups: _Groups, wanted: Mapping[str, int]) -> DataError:
    there = f"{rows} rows in the sample" if source.left_out else f"{rows} rows"
    grouped = f" in {groups.number} groups of {source.group_column}" if source.group_column else ""
    return DataError(
        f"{source.name} has {there} with {groups.inputs} different inputs{grouped} for "
        f"{', '.join(f'{split}_size={size}' for split, size in wanted.items())}, and equal inputs"
        f"{' and groups' if grouped else ''} stay in one split; lower a size"
    )


def _size_of(split: str, wanted: int, rows: int, *, is_own: bool) -> int:
    """Number of rows of a split: the requested one, or for -1 as in `deal`."""
    if wanted != AUTOMATIC:
        return wanted
    third = rows if is_own else rows // 3
    if split == "test":
        return max(1, min(MOST_TEST_ROWS, third))
    least = 1 if is_own else min(FEWEST_VALIDATION_ROWS, rows // 2)
    return max(1, least, min(MOST_VALIDATION_ROWS, third))


def _check_groups(source: TaskSource, groups: int, splits: int) -> None:
    if source.group_column and 0 < groups < splits:
        raise DataError(
            f"{source.name}: group_column={source.group_column} puts all rows into {groups} "
            f"group{'s' * (groups > 1)}, rows with equal inputs joined, and {splits} splits need one each; name a "
            "column with more values, or remove group_column"
        )


@lru_cache(1024)
def _label(output: str) -> str:
    """Form shared by all spellings of one label."""
    return as_read(output)


@dataclass(slots=True)
class _Group:
    """Rows that stay together; their label is that of the first."""

    rows: list[Row]

    @property
    def label(self) -> str:
        return _label(self.rows[0].output)

    @property
    def newest(self) -> Moment:
        return max(row.moment for row in self.rows if row.moment is not None)


class _Groups:
    """Groups of rows that are not dealt yet, in random order; `inputs` is the number of different inputs.

    Without a seed they are in the order of their first rows, and classes do not count.
    """

    def __init__(self, rows: Sequence[Row], seed: int | None, stream: str) -> None:
        by_input: dict[bytes, _Group] = {}
        for row in rows:
            by_input.setdefault(equality_key(row.input), _Group([])).rows.append(row)
        self.inputs = len(by_input)
        classes = classes_of([group.rows[0].output for group in by_input.values()]) if seed is not None else {}
        self._classes = list(dict.fromkeys(map(_label, classes.values())))
        self._is_grouped = any(row.group for row in rows)
        groups = _joined(list(by_input.values())) if self._is_grouped else list(by_input.values())
        self.number = len(groups)
        order = range(len(groups)) if seed is None else rng(seed, "splits", stream).permutation(len(groups))
        self._left = [groups[int(index)] for index in order]

    def __len__(self) -> int:
        return sum(len(group.rows) for group in self._left)

    def take(self, size: int, *, leave: int = 0) -> list[Row]:
        """Take `size` rows, or fewer if there are no more; the rest of the last group is left out for good.

        Rows that a column groups are taken by whole groups where these fit in, so that a large one does not fill a set;
        where all are too large, rows of several.

        Args:
            leave: splits that come later, which a class of few rows and a group each are left to.
        """
        quota = _quotas(Counter({label: self._rows_of(label) for label in self._classes}), size, leave)
        if self._is_grouped:
            return self._take_groups(size, quota, leave)
        taken: list[Row] = []
        kept: list[_Group] = []
        for group in self._left:
            wanted = min(size - len(taken), quota.get(group.label, size) if quota else size)
            if wanted <= 0:
                kept.append(group)
                continue
            rows = group.rows[:wanted]
            taken += rows
            if quota:
                quota[group.label] -= len(rows)
        self._left = kept
        return taken

    def take_newest(self, size: int, *, leave: int = 0) -> list[Row]:
        """Take `size` rows of the latest groups; a group is as new as its newest row, and the last group gives its
        newest rows.

        What is equally new comes in random order.
        """
        taken: list[Row] = []
        gone: set[int] = set()
        by_age = sorted(self._left, key=lambda group: group.newest, reverse=True)
        for group in by_age[: max(len(by_age) - leave, 0)]:
            if len(taken) == size:
                break
            newest_first = sorted(group.rows, key=lambda row: row.moment or 0, reverse=True)
            taken += newest_first[: size - len(taken)]
            gone.add(id(group))
        self._left = [group for group in self._left if id(group) not in gone]
        return taken

    def take_last(self, size: int, *, leave: int = 0) -> list[Row]:
        """Take `size` rows from the end; the rest of a group that is taken in part is left out for good."""
        taken: list[list[Row]] = []
        missing = size
        while missing > 0 and len(self._left) > leave:
            taken.append(self._left.pop().rows[:missing])
            missing -= len(taken[-1])
        return [row for rows in reversed(taken) for row in rows]

    def parted(self, seed: int) -> _Groups:
        """Remaining rows, grouped by equal inputs only; for the last split, after which no row is needed."""
        if not self._is_grouped:
            return self
        return _Groups([replace(row, group="") for group in self._left for row in group.rows], seed, "pool")

    def _take_groups(self, size: int, quota: dict[str, int], leave: int) -> list[Row]:
        """Take first the groups that fit as a whole, then parts of the smallest others.

        Where that leaves too few rows of a class, other rows take their places.
        """
        draw = _Draw(size, quota)
        for group in self._left[: max(len(self._left) - leave, 0)]:
            draw.take(group, size, is_whole=True)
        for _ in ("by class", "of any class"):
            others = sorted((group for group in self._left if not draw.has(group)), key=lambda group: len(group.rows))
            share = len(others) // (leave + 1)
            for number, group in enumerate(others[: max(len(others) - leave, 0)]):
                draw.take(group, -(-draw.missing // max(share - number, 1)))
            draw.fill()
            draw.quota = {}
            draw.fill()
        self._left = [group for group in self._left if not draw.has(group)]
        return draw.rows

    def _rows_of(self, label: str) -> int:
        if self._is_grouped:
            return sum(_label(row.output) == label for group in self._left for row in group.rows)
        return sum(len(group.rows) for group in self._left if group.label == label)


class _Draw:
    """Rows of one split, drawn by groups."""

    def __init__(self, size: int, quota: dict[str, int]) -> None:
        self.rows: list[Row] = []
        self.quota = quota
        self._size = size
        self._groups: dict[int, _Group] = {}

    @property
    def missing(self) -> int:
        return self._size - len(self.rows)

    def has(self, group: _Group) -> bool:
        return id(group) in self._groups

    def take(self, group: _Group, most: int, *, is_whole: bool = False) -> None:
        """Take the rows of a group for which there is room, or all or none of them."""
        rows = _within(group.rows, min(most, self.missing), self.quota)
        if rows and not (is_whole and len(rows) < len(group.rows)):
            self._groups[id(group)] = group
            self._add(rows)

    def fill(self) -> None:
        """Take the rest of the groups that the split has begun, because no other split may have it."""
        if self.missing:
            has = set(map(id, self.rows))
            left = [row for group in self._groups.values() for row in group.rows if id(row) not in has]
            self._add(_within(left, self.missing, self.quota))

    def _add(self, rows: list[Row]) -> None:
        self.rows += rows
        for label, count in Counter(_label(row.output) for row in rows).items() if self.quota else ():
            if label in self.quota:
                self.quota[label] -= count


def _within(rows: Sequence[Row], most: int, quota: Mapping[str, int]) -> list[Row]:
    """The first rows for which there is room, at most the quota of each class."""
    left = dict(quota)
    found: list[Row] = []
    for row in rows:
        label = _label(row.output) if left else ""
        if len(found) < most and left.get(label, 1) > 0:
            found.append(row)
            if label in left:
                left[label] -= 1
    return found


def _joined(groups: Sequence[_Group]) -> list[_Group]:
    """Groups of equal inputs, merged if they share a value in the group column (union-find)."""
    parents = list(range(len(groups)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    first_of: dict[str, int] = {}
    for number, group in enumerate(groups):
        for row in group.rows:
            one, other = root(first_of.setdefault(row.group, number)), root(number)
            parents[max(one, other)] = min(one, other)
    joined: dict[int, _Group] = {}
    for number, group in enumerate(groups):
        joined.setdefault(root(number), _Group([])).rows.extend(group.rows)
    return list(joined.values())


def classes_of(outputs: Sequence[str]) -> dict[str, str]:
    """The class of each output, the most frequent class first; empty if outputs are not classes.

    Outputs that are equal to a reader are one class, which is called as it is written most often.
    """
    written: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for output, count in Counter(outputs).most_common():
        written.setdefault(label := as_read(output), []).append(output)
        counts[label] += count
    if not 1 < len(counts) <= MOST_CLASSES or len(outputs) < ROWS_OF_A_CLASS * len(counts):
        return {}
    return {output: written[label][0] for label, _ in counts.most_common() for output in written[label]}


def _quotas(there: Counter[str], size: int, leave: int) -> dict[str, int]:
    """Number of rows of each class, in proportion (largest remainders); at least one each if rows allow.

    A class that has no more rows than splits come later gets none here.
    """
    taken = {label: count for label, count in there.items() if count > leave}
    total = sum(taken.values())
    if not total or size >= total:
        return dict(there)
    exact = {label: size * count / total for label, count in taken.items()}
    quota = {label: int(share) for label, share in exact.items()}
    by_remainder = sorted(exact, key=lambda label: int(exact[label]) - exact[label])
    for label in by_remainder[: size - sum(quota.values())]:
        quota[label] += 1
    for label in [label for label in quota if not quota[label] and size >= len(quota)]:
        largest = max(quota, key=lambda other: quota[other])
        quota[largest] -= 1
        quota[label] = 1
    return {label: quota.get(label, 0) for label in there}


class _Leaks:
    """Rows drawn for earlier splits, and rows of other splits that share inputs or groups with them."""

    def __init__(self, source: TaskSource, *, keep: bool) -> None:
        self._what = f"inputs or {source.group_column}" if source.group_column else "inputs"
        self._keep = keep
        self._taken: set[bytes | str] = set()
        self.notices: list[str] = []

    def taken(self, rows: Iterable[Row]) -> None:
        self._taken.update(*map(_keys, rows))

    def without(self, split: str, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of a split, with or without those whose inputs are taken; a notice counts the latter."""
        fresh = [row for row in rows if not self._taken & _keys(row)] if self._taken else rows
        if len(fresh) == len(rows):
            return rows
        others = "validation or test set" if split == "pool" else "test set"
        done = "were kept (leaks=keep), though" if self._keep else "were left out:"
        self.notices.append(
            f"{len(rows) - len(fresh)} {split} rows {done} their {self._what} also occur in the {others}"
        )
        return rows if self._keep else fresh


def _keys(row: Row) -> set[bytes | str]:
    """Keys that no other split may share."""
    return {equality_key(row.input), row.group} if row.group else {equality_key(row.input)}


def _class_counts(
    rows: Sequence[Row], pool: Iterable[Row], validation: Iterable[Row], test: Iterable[Row]
) -> dict[str, tuple[int, int, int]]:
    """Number of rows of each class in pool, validation and test set."""
    classes = classes_of([row.output for row in rows])
    counts = [Counter(classes.get(row.output, "") for row in split) for split in (pool, validation, test)]
    return {label: (counts[0][label], counts[1][label], counts[2][label]) for label in dict.fromkeys(classes.values())}


def _numbered(rows: Sequence[Row], start: int) -> tuple[Exemplar, ...]:
    return tuple(
        Exemplar(start + i, row.input, row.outputs, row.is_noisy, row.fields, row.origin) for i, row in enumerate(rows)
    )
