"""The page about a record, as the dashboard shows it."""

import pytest
from markdown_it import MarkdownIt

from ease_lib.lineage.record_summary import _text

HOSTILE = (
    r"\[see\](https://evil.example/x)",
    "[see](https://evil.example)",
    "https://evil.example/x",
    "www.evil.example",
    "see (WWW.evil.example)",
    "<a href='https://evil.example'>x</a><script>",
    "a `tick` and ``two`` `",
    "`",
    "_emphasised_ *and* **strong** ![image](https://evil.example/i.png)",
    "two\nlines\n\n# heading",
)


@pytest.mark.parametrize("value", HOSTILE)
def test_no_value_becomes_markup(value):
    shown = MarkdownIt("commonmark").enable("table").parseInline(_text(value))[0].children
    assert [token.type for token in shown] == ["code_inline"]
    assert shown[0].content == " ".join(value.split())


def test_a_cell_stays_one_cell():
    html = (
        MarkdownIt("commonmark").enable("table").render(f"| a | b |\n| --- | --- |\n| {_text('x|y [z](u)|')} | 1 |\n")
    )
    assert html.count("<td>") == 2
    assert "<code>x|y [z](u)|</code>" in html


def test_words_and_numbers_stand_as_they_are():
    assert _text("in: pool (3 rows), 95.5 %") == "in: pool (3 rows), 95.5 %"
