"""What a record may not hold, and what it may."""

import pytest

from ease_lib.lineage.redaction import HIDDEN, redacted, redacted_document, secrets_of


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://user:password@host/v1", "https://host/v1"),
        ("http://token@host:8080/a and s3://b/c", "http://host:8080/a and s3://b/c"),
        ("https://host/o?X-Amz-Signature=abc&X-Amz-Date=1", "https://host/o"),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {HIDDEN}"),
        ("key sk-abcdefghijklmnop refused", f"key {HIDDEN} refused"),
        ("AKIAABCDEFGHIJKLMNOP", HIDDEN),
        ("the value is 12345678", f"the value is {HIDDEN}"),
        ("What is 2 + 2? Ask me @ noon: https://host/page", "What is 2 + 2? Ask me @ noon: https://host/page"),
        ("s3://bucket/key/part-0.parquet", "s3://bucket/key/part-0.parquet"),
        ("", ""),
    ],
)
def test_secrets_go_and_the_rest_stays(text, kept):
    assert redacted(text, ("12345678",)) == kept


def test_documents_are_redacted_in_keys_and_at_every_depth():
    document = {"a": ["x-secret", {"b-secret": ("secret", 1, None, True)}]}
    assert redacted_document(document, ("secret",)) == {"a": [f"x-{HIDDEN}", {f"b-{HIDDEN}": [HIDDEN, 1, None, True]}]}


def test_the_environment_names_its_secrets():
    environment = {
        "EASE_LLM_API_KEY": "long-enough",
        "AWS_SECRET_ACCESS_KEY": "longer-than-that",
        "OPENAI_KEY": "short",
        "TOKENIZERS_PARALLELISM": "false-false",
        "HOME": "/home/someone",
    }
    assert secrets_of(environment.items()) == ("longer-than-that", "long-enough")
