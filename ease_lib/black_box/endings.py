"""Endings of an answer: whole, cut at its limit, refused for its content, or broken.

Only what is known as an end makes an answer whole: an endpoint that breaks off (`error`, `abort`, `network_error`,
`insufficient_system_resource`, ...) gives half an answer with whatever reason it likes.
"""

from __future__ import annotations

import re
from typing import Any

WHOLE, CUT, REFUSED, BROKEN = "whole", "cut", "refused", "broken"
_ENDS = {
    *("", "none", "null", "stop", "stopped", "stoptoken", "stopsequence", "stopstring"),
    *("eos", "eostoken", "endofsequence", "endoftext", "eot", "endturn", "endofturn"),
    *("complete", "completed", "done", "finish", "finished", "end", "success", "natural", "normal", "ok"),
}
_CUT = {
    *("length", "lengthlimit", "maxlength", "modellength", "maxtokens", "maxoutputtokens", "maxcompletiontokens"),
    *("maxnewtokens", "tokenlimit", "modelcontextwindowexceeded", "contextlength"),
}
_OF_CONTENT = re.compile(
    "filter|safety|prohibit|recitation|block|spii|refus|moderat|sensitive|policy|guardrail|violat|flagged|harm|toxic|"
    "^language$"
)


def ending_of(finish_reason: Any) -> str:
    """`WHOLE`, `CUT`, `REFUSED` or `BROKEN`, of what endpoints call `finish_reason`, in any spelling (`MAX_TOKENS`,
    `FINISH_REASON_STOP`, `content_filter: RECITATION`)."""
    words = str(finish_reason or "").lower()
    name = re.sub(r"[^a-z0-9]", "", words).removeprefix("finishreason")
    if name in _ENDS:
        return WHOLE
    if name in _CUT:
        return CUT
    return REFUSED if _OF_CONTENT.search(name) else BROKEN
