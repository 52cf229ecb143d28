"""Text that a record may hold, and text that it may not."""

import base64
import random
import string
import uuid

import pytest

from ease_lib.lineage.redaction import HIDDEN, looks_secret, redacted, redacted_document, secrets_of

ALPHANUMERIC = string.ascii_letters + string.digits
URL_SAFE = f"{ALPHANUMERIC}-_"
HEX = "0123456789abcdef"
KEY_SHAPES = {
    "sk-{}": (48, ALPHANUMERIC),
    "sk-proj-{}": (156, URL_SAFE),
    "sk-ant-api03-{}": (95, URL_SAFE),
    "sk-or-v1-{}": (64, HEX),
    "sk_live_{}": (24, ALPHANUMERIC),
    "pk_live_{}": (24, ALPHANUMERIC),
    "hf_{}": (34, string.ascii_letters),
    "ghp_{}": (36, ALPHANUMERIC),
    "gho_{}": (36, ALPHANUMERIC),
    "github_pat_{}": (82, ALPHANUMERIC),
    "glpat-{}": (20, ALPHANUMERIC),
    "xoxb-1234567890123-1234567890123-{}": (24, ALPHANUMERIC),
    "gsk_{}": (52, ALPHANUMERIC),
    "AKIA{}": (16, string.ascii_uppercase + string.digits),
    "AIza{}": (35, URL_SAFE),
    "eyJhbGciOiJIUzI1NiJ9.{0}.{0}": (43, URL_SAFE),
}
"""Length and characters of the keys that services give out."""


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
        ("https://user:p@ss'word@host/v1", "https://host/v1"),
        ("{'Authorization': 'Bearer abc'}", f"{{'Authorization': 'Bearer {HIDDEN}'}}"),
        ("authorization: k3ySecret", f"authorization: {HIDDEN}"),
        (f"sent Basic {base64.b64encode(b'user:pw').decode()}", f"sent Basic {HIDDEN}"),
        ("s3://b/key?X-Amz-Signature=abc", "s3://b/key"),
        ("Authorization: Token 3f9abc12", f"Authorization: Token {HIDDEN}"),
        ("{'x-api-key': 'k3ySecret-1'}", f"{{'x-api-key': '{HIDDEN}'}}"),
        ("X-Auth-Token: k3ySecret-1, sent", f"X-Auth-Token: {HIDDEN}, sent"),
        ('{"api_key": "k3ySecret-1"}', f'{{"api_key": "{HIDDEN}"}}'),
        ("Ocp-Apim-Subscription-Key: k3ySecret-1", f"Ocp-Apim-Subscription-Key: {HIDDEN}"),
        ("X-Vault-Token: k3ySecret-1", f"X-Vault-Token: {HIDDEN}"),
        ('Authorization: Digest username="u", response="k3y"', f"Authorization: Digest {HIDDEN}"),
        ("Authorization: GoogleLogin auth=k3y", f"Authorization: {HIDDEN} {HIDDEN}"),
        ("Cookie: session=abc; csrf=def\nHost: h", f"Cookie: {HIDDEN}\nHost: h"),
        ("set-cookie=a=b", f"set-cookie={HIDDEN}"),
        (
            "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=0a1b2c",
            f"AWS4-HMAC-SHA256 SignedHeaders=host, Signature={HIDDEN}",
        ),
        ("api_key: none, a cookie: sweet, the signature of it", "api_key: none, a cookie: sweet, the signature of it"),
        (r"'line\nsk-abcdefghijklmnop'", rf"'line\n{HIDDEN}'"),
        ("What is 2 + 2? Ask me @ noon: https://host/page", "What is 2 + 2? Ask me @ noon: https://host/page"),
        ("s3://bucket/key/part-0.parquet", "s3://bucket/key/part-0.parquet"),
        ("", ""),
    ],
)
def test_secrets_go_and_the_rest_stays(text, kept):
    assert redacted(text, ("12345678",)) == kept


@pytest.mark.parametrize(
    "text",
    [
        "hf_datasets/t.csv",
        "/data/hf_datasets_2026/tickets.csv",
        "s3://bucket/pk_customer_feedback/run-1/pool",
        "runs/sk_classification/sk-internationalization/prompt.txt",
        "/runs/pk_20261122T073935Z-bd2bfe70/sk_run1_v2_k5_b12_n20",
        "s3://bucket/what is it?.csv",
        "/data/what?really.csv",
        "basic classification of tickets, and basic classifications",
        "the bearer certificates of 1912",
        "authorization: required; authorization: none",
        "task-abcdefghijklmnop of risk-abcdefghijklmnop",
        "5c8822d2" * 8,
        "x12345678 and 123456789 are other values",
    ],
)
def test_addresses_and_words_stay_what_they_are(text):
    assert redacted(text, ("12345678",)) == text


@pytest.mark.parametrize("shape", KEY_SHAPES)
def test_every_random_key_of_a_known_shape_goes(shape):
    length, characters = KEY_SHAPES[shape]
    draw = random.Random(shape)
    for _ in range(300):
        key = shape.format("".join(draw.choices(characters, k=length)))
        for text in (f"Incorrect API key provided: {key}.", f"/v1/{key}/models", repr(f"a\n{key}"), f"key={key}&x=1"):
            assert key not in redacted(text), key


@pytest.mark.parametrize("value", ["ollama", "EMPTY", "dummy", "lm-studio", "no-key-required", "minioadmin", "llama3"])
def test_a_value_that_only_stands_where_a_key_should_is_no_secret(value):
    secrets = secrets_of([("OPENAI_API_KEY", value)])
    path = f"/models/{value}/data/{value}.csv"
    assert redacted(path, secrets) == path


def test_random_values_are_secrets_whatever_their_service():
    draw = random.Random(0)
    for length in (12, 16, 20, 32, 40, 64):
        for characters in (ALPHANUMERIC, HEX, f"{ALPHANUMERIC}+/", string.printable[:94]):
            assert all(looks_secret("".join(draw.choices(characters, k=length))) for _ in range(100))
    assert all(looks_secret("".join(draw.choices(string.ascii_letters, k=16))) for _ in range(100))
    assert looks_secret(str(uuid.UUID(int=draw.getrandbits(128))))
    assert looks_secret("correct-horse-battery-staple")


def test_a_short_secret_goes_as_a_word_and_a_long_one_wherever_it_stands():
    short, long = "Tr0ub4dor", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
    assert redacted(f"/data/{short}s/x {short}, key={short}", (short,)) == f"/data/{short}s/x {HIDDEN}, key={HIDDEN}"
    assert redacted(f"a{long}b", (long,)) == f"a{HIDDEN}b"


def test_documents_are_redacted_in_keys_and_at_every_depth():
    document = {"a": ["x-secret", {"b-secret": ("secret", 1, None, True)}]}
    assert redacted_document(document, ("secret",)) == {"a": [f"x-{HIDDEN}", {f"b-{HIDDEN}": [HIDDEN, 1, None, True]}]}


def test_the_environment_names_its_secrets():
    environment = {
        "EASE_LLM_API_KEY": "l0ng-enough",
        "AWS_SECRET_ACCESS_KEY": "l0nger-than-that",
        "OPENAI_KEY": "sh0rt",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        "EASE_SECRET_NAME": "object-store-2026",
        "TOKENIZERS_PARALLELISM": "false-false",
        "HOME": "/home/someone",
    }
    assert secrets_of(environment.items()) == ("l0nger-than-that", "l0ng-enough")
    headers = [("GATEWAY", "Token s3nt-as-header")]
    assert secrets_of([], headers) == ("Token s3nt-as-header", "s3nt-as-header")
