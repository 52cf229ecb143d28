"""Turn the record of a table into a row: which columns make the input, the output and the splits."""

from __future__ import annotations

import base64
import csv
import io
import json
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from ease_lib.equality import is_blank, same_written
from ease_lib.errors import ConfigError
from ease_lib.tasks.base import Moment, Row
from ease_lib.tasks.missing import is_missing
from ease_lib.tasks.places import Record

Parts = tuple[tuple[str, str | None], ...]
"""Pairs of text and the column that follows it; None if no column does."""
NO_RECORD: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Columns:
    """Mapping from the columns of a record to the input and the output of a row.

    An output that is one column and nothing else may hold a list: its items are the accepted outputs, or with
    `keeps_lists` it is one output, as JSON (a text that is not a JSON list is a list of itself). Any other list becomes
    its items, a line each. A CSV file without a header names its columns 1, 2, 3, ...

    Args:
        remedy: what a missing column's error advises.
        fields: further columns that the row keeps.
        keeps_all: it keeps every column, as JSON, for a program that is given rows.
        is_object: the output is a JSON object of its columns.
        split, group, time: columns that the splits are made by.
    """

    input: Parts
    output: Parts
    remedy: str
    fields: tuple[str, ...] = ()
    is_object: bool = False
    keeps_lists: bool = False
    keeps_all: bool = False
    split: str = ""
    group: str = ""
    time: str = ""

    @classmethod
    def parse(
        cls,
        input_columns: str,
        output_column: str,
        remedy: str = "set input_columns and output_column",
        fields: Sequence[str] = (),
        *,
        keeps_lists: bool = False,
        keeps_all: bool = False,
        split: str = "",
        group: str = "",
        time: str = "",
    ) -> Columns:
        """Parse the two parameters: a value with `{` is a template; any other names columns.

        Several input columns become one text, a line `column: value` each; several output columns a JSON object.

        Raises:
            ConfigError: when no column is named, a template is broken, or lists are kept of more than one column.
        """
        names, outputs = _names(input_columns), _names(output_column)
        if not names or not outputs:
            raise ConfigError("input_columns and output_column must each name a column")
        inputs: Parts
        if "{" in input_columns:
            inputs = parse_template(input_columns)
        elif len(names) == 1:
            inputs = (("", names[0]),)
        else:
            inputs = tuple((f"{name}: " if name == names[0] else f"\n{name}: ", name) for name in names)
        is_template = "{" in output_column
        output = parse_template(output_column) if is_template else tuple(("", name) for name in outputs)
        if keeps_lists and (len(output) > 1 or output[0][0]):
            raise ConfigError("output_lists=set needs output_column to be one column; name the one that holds the list")
        return cls(
            inputs,
            output,
            remedy,
            fields=tuple(fields),
            is_object=not is_template and len(outputs) > 1,
            keeps_lists=keeps_lists,
            keeps_all=keeps_all,
            split=split.strip(),
            group=group.strip(),
            time=time.strip(),
        )

    @property
    def all(self) -> tuple[str, ...]:
        made_from = [column for _, column in (*self.input, *self.output) if column is not None]
        dealt_by = [column for column in (self.split, self.group, self.time) if column]
        return tuple(dict.fromkeys([*made_from, *self.fields, *dealt_by]))

    @property
    def metric(self) -> str:
        """Metric for such outputs, unless one is set."""
        if self.is_object:
            return "json_fields"
        return "json_set" if self.keeps_lists else "exact_match"

    def remedy_of(self, column: str, record: Mapping[Any, Any] = NO_RECORD) -> str:
        """Remedy for a missing column; perhaps its name is a part of the name of another column of the record."""
        dealt_by = {self.split: "split_column", self.group: "group_column", self.time: "time_column"}
        whole = next((name for name in map(str, record) if "," in name and column in _names(name)), "")
        if whole:
            return f'quote a name that contains a comma: "{whole}"'
        alike = next((name for name in map(str, record) if same_written(name) == same_written(column)), "")
        if alike:
            return f"{alike!a} only looks like it; rename that column in the table"
        return f"correct {dealt_by[column]}" if column in dealt_by else self.remedy

    def row(self, record: Record, moment: Moment | None = None, origin: str = "") -> Row:
        """Make a row from a record with all its cells filled."""
        if self.keeps_all:
            fields = tuple((str(column), json_text(_with_base64(value))) for column, value in record.items())
        else:
            fields = tuple((column, trimmed(cell_text(record[column]))) for column in self.fields)
        group = same_written(cell_text(record[self.group])) if self.group else ""
        outputs = tuple(dict.fromkeys(map(trimmed, self._outputs(record))))
        return Row(self.input_text(record), outputs, fields=fields, group=group, moment=moment, origin=origin)

    def input_text(self, record: Record) -> str:
        """Input text made from the cells of a record."""
        return trimmed(_filled(self.input, record))

    def _outputs(self, record: Record) -> list[str]:
        if self.is_object:
            return [json_text({column: record[column] for _, column in self.output if column is not None})]
        answers = _items(self.output, record)
        if self.keeps_lists:
            return [json_text(_listed(record[str(self.output[0][1])]) if answers is None else answers)]
        return [_filled(self.output, record)] if answers is None else list(map(cell_text, answers))

    def is_empty(self, column: str, value: Any) -> bool:
        """Whether a cell holds nothing; where lists are outputs, an empty one says that nothing applies."""
        return is_empty(value) and not (self.keeps_lists and value == [] and self.output == (("", column),))


def _names(columns: str) -> list[str]:
    """Return the names in a text such as `a,"b, c"`: one that holds a comma is in quotes."""
    lines = csv.reader(columns.splitlines(keepends=True), skipinitialspace=True)
    return [name.strip() for names in lines for name in names if name.strip()]


def joined_names(names: Sequence[str]) -> str:
    """Return the text that names these columns."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def parse_template(text: str) -> Parts:
    r"""Read `Premise: {premise}\nHypothesis: {hypothesis}`; `{{` and `}}` are braces, backslash and n a line break.

    Raises:
        ConfigError: on unpaired braces, a field that is more than a column's name, or none at all.
    """
    parts = split_fields(text, f"template {text!r}", "a column's name, like {question}", never="[]{}")
    if all(column is None for _, column in parts):
        raise ConfigError(f"template {text!r} has no column; name at least one, like {{question}}")
    return tuple((literal.replace("\\n", "\n"), column) for literal, column in parts)


def split_fields(text: str, where: str, field_is: str, never: Collection[str] = ".[]{}") -> Parts:
    """Each text between fields, with the name of the field behind it or None; `{{` and `}}` are braces.

    Args:
        where, field_is: what is read, and what a field is, for messages.
        never: characters that no name has.

    Raises:
        ConfigError: if braces are unpaired, or hold more than a name.
    """
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; write {{{{ and }}}} for braces that are text") from error
    for _, field, specification, conversion in parts:
        if field is not None and (not field or specification or conversion or set(field) & set(never)):
            raise ConfigError(
                f"{where}: {{{field}...}} is not {field_is}; rename a column that has any of "
                f"{' '.join(never)} : ! in its name"
            )
    return tuple((literal, field) for literal, field, _, _ in parts)


def moment_of(value: Any) -> tuple[Moment, str] | None:
    """Sort key of a date, a time with its date, or a number, and which of these it is; None for anything else.

    Without a zone it is UTC.
    """
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value, "number"
    if isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        return None
    for read, kind in ((int, "number"), (float, "number"), (_timestamp, "date")):
        try:
            moment = read(value.strip())
        except ValueError:
            continue
        return (moment, kind) if abs(moment) < float("inf") else None  # also of "nan"
    return None


def _timestamp(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def trimmed(text: str) -> str:
    """The text without surrounding blanks, which would make it another label; indentation of several lines stays."""
    text = text.strip("\r\n").rstrip()
    return text if "\n" in text else text.strip()


def _filled(template: Parts, record: Record) -> str:
    return "".join(literal + ("" if column is None else cell_text(record[column])) for literal, column in template)


def _items(template: Parts, record: Record) -> list[Any] | None:
    """The list in the column that is the whole template; None if it is not a list, or the template has other text."""
    (literal, column), *more = template
    value = None if literal or more or column is None else record[column]
    return value if isinstance(value, list) else None


def _listed(value: Any) -> list[Any]:
    """The JSON list that a text is, as in cells of CSV; of anything else a list."""
    try:
        read = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        read = value
    return read if isinstance(read, list) else [value]


def is_empty(value: Any) -> bool:
    if type(value) is str:  # most are
        return is_blank(value)
    if isinstance(value, list):
        return not value or any(is_empty(item) for item in value)
    return is_missing(value) or is_blank(cell_text(value))


def cell_text(value: Any) -> str:
    """A cell in the form for prompts: lists with a line for each item, objects as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json_text(value)
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")  # what is not text is refused as half a character
    return "\n".join(map(cell_text, value)) if isinstance(value, list) else str(value)


def json_text(value: Any) -> str:
    """JSON of a table's value; values without a JSON type become text."""
    return json.dumps(_json_value(value), ensure_ascii=False, default=cell_text)


def _with_base64(value: Any) -> Any:
    """The value with binary data, for example of a picture, in the form in which programs read it from JSON."""
    if isinstance(value, dict):
        return {name: _with_base64(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_base64(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value


def _json_value(value: Any) -> Any:
    """Return the value with null for what is missing: JSON has no NaN."""
    if isinstance(value, dict):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return None if is_missing(value) else value
