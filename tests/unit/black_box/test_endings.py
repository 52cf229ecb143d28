"""Only what is known as an end makes an answer whole."""

import pytest

from ease_lib.black_box.endings import BROKEN, CUT, REFUSED, WHOLE, ending_of

ENDINGS = {
    WHOLE: (
        *(None, "", "null", "stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "COMPLETE", "done"),
        *("FINISH_REASON_STOP", "end-of-text"),
    ),
    CUT: ("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "FINISH_REASON_MAX_TOKENS"),
    REFUSED: (
        *("content_filter", "content_filter: RECITATION", "content_filter: PROHIBITED_CONTENT", "SAFETY", "BLOCKLIST"),
        *("contentFilter", "SPII", "refusal", "guardrail_intervened", "sensitive", "IMAGE_SAFETY"),
    ),
    BROKEN: (
        *(
            "error",
            "abort",
            "cancelled",
            "network_error",
            "insufficient_system_resource",
            "timeout",
            "OTHER",
            "unknown",
        ),
        *("tool_calls", "function_call", "MALFORMED_FUNCTION_CALL", "stop_error", "FINISH_REASON_ERROR", 5, {"a": 1}),
    ),
}


@pytest.mark.parametrize(
    ("reason", "ending"), [(reason, ending) for ending, reasons in ENDINGS.items() for reason in reasons]
)
def test_how_an_answer_ended(reason, ending):
    assert ending_of(reason) == ending
