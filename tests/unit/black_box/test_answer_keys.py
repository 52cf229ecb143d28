"""The keys of kept answers, byte for byte: where one changes, every user pays for every answer again."""

from contextlib import contextmanager

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.client import Completion, Sampling
from ease_lib.black_box.endpoint_notes import EndpointNotes
from ease_lib.black_box.in_process import OwnFunction
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.config.sections import EndpointConfig, JudgeConfig
from ease_lib.notes import Notes
from ease_lib.prompts.messages import Chat
from ease_lib.running import run
from ease_lib.running.run import Caller
from tests.support.runs import open_black_box

URL, MODEL = "https://llm.example.org/v1", "small-1"
PROMPT = "Input: naïve café\nOutput:"
CHAT = Chat.of([("system", "Answer with one word."), ("user", "Größe?"), ("assistant", "L"), ("user", "Farbe?")])
SAMPLING = Sampling(max_tokens=64, stop="\n")


class Keys:
    """A cache in which every answer is kept; `asked` are the keys that were looked up."""

    def __init__(self):
        self.asked = []
        self.unknown = set()

    async def get(self, key, notes):
        self.asked.append(key)
        if key in self.unknown:
            return None
        return Completion(text="kept", prompt_tokens=1, completion_tokens=1, model=MODEL)

    async def put(self, key, completion, notes):
        raise AssertionError("an answer that was kept is asked again")


@pytest.fixture
def keys(monkeypatch, tmp_path):
    @contextmanager
    def open_keys(store):
        yield kept

    kept = Keys()
    monkeypatch.setattr(run, "open_cache", open_keys)

    def ask(prompt=PROMPT, *, sampling=SAMPLING, answers="", judge=None, caller=None, **endpoint):
        """The key of a prompt, or of the judge's question."""
        config = EndpointConfig(**{"llm_base_url": URL, "llm_model": MODEL, **endpoint})
        asked = {
            "sampling": sampling,
            "store_uri": str(tmp_path),
            "answers": answers,
            "judge": judge,
            "caller": caller or Caller(),
        }
        with open_black_box(config, **asked) as black_box:
            client = black_box.judge.client if judge else black_box.client
            black_box.loop.run(client.complete(prompt))
        return kept.asked[-1]

    asked = LLMIdentity(endpoint=URL, model=MODEL, api="chat", sampling=SAMPLING)
    ask.kept = kept
    ask.notes = EndpointNotes(open_store(str(tmp_path)), asked, Notes())
    return ask


def test_of_a_text_and_of_messages_by_the_chat_api(keys):
    assert keys() == "46d465f20fe7603cd0c1d44603357ab07cd6da623fd001328ce488142eed978e"
    assert keys(CHAT) == "1df5eeebbdc0cb84bcc70715d8184739ba6b0c6359777a877c65ac9a259a334e"


def test_what_is_not_sent_is_in_no_key_and_answers_from_when_it_was_are_found(keys):
    """The ends of raw completions, and that some prompt of the run is messages, are not sent."""
    unsent = Sampling(max_tokens=64, stop="\n\n", messages=True)
    assert keys(sampling=unsent) == keys()
    keys.kept.unknown = {keys()}
    assert keys(sampling=unsent) == "aa28d042588cefb38dbb5f5475995c64438df80c4d5da1ba336e904f021ca9e6"
    keys.kept.unknown = {keys(CHAT)}
    former = keys(CHAT, sampling=Sampling(max_tokens=64, stop="\n", messages=True))
    assert former == "b610abb0d045eb2edf7d0f71a750af60492088caf43b1abadf47a22fdf4cc539"


def test_of_the_completions_api(keys):
    assert keys(llm_api="completions") == "400c65444944b7729632c5f8859a6ba0fea74bf449d78ed3e75cc3267ad0ef47"


def test_of_what_sampling_says(keys):
    assert (
        keys(sampling=Sampling(max_tokens=128, stop="\n", temperature=0.2))
        == "0d51219878fcadf323fb703176cba738cb66a8d2cba9128a6c5fac139836e328"
    )
    assert (
        keys(sampling=Sampling(max_tokens=64, stop="\n", stops=("\n", "Input:")))
        == keys(sampling=Sampling(max_tokens=64, stop="", stops=("\n", "Input:")))
        == "4839c60d21bb2827ad46b9d52c5386ce297bd40c2eb8b0b2b3f632f10970b405"
    )


def test_of_what_else_is_sent_with_every_request(keys):
    assert (
        keys(llm_extra='{"reasoning_effort": "low", "seed": 1}')
        == "e496385a46a4ff74aa2ea4b1bda13b207730c41764d5b0ed33bc076c7252ded3"
    )
    assert keys(llm_extra="{}") == keys()


def test_of_what_the_endpoint_refuses(keys):
    keys.notes.keep_left_out(frozenset({"temperature", "max_tokens"}))
    assert keys() == "b02e4ef4fb6ffbfbdb20daba7e24c971e3f40a7327fcac802ffc1aa496f5544b"


def test_of_a_generation_that_is_not_the_first(keys):
    assert (
        keys(answers="2026-11-24T08:00:00.000000+00:00 small-1-0613")
        == "78ece6352aaa38b13043afcaa29167d51f13e319a9eab03cf9e8e2e3919ff395"
    )
    both = keys(answers="2026-11-24T08:00:00.000000+00:00", llm_extra='{"seed": 1}')
    assert both == "08865780eed1fd20bc536390486e161493899794e1533d33890a40322e766ed2"
    assert keys(answers="first") == keys()


def test_where_and_with_what_settings_of_transport_it_is_asked_decides_nothing(keys, monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "t")
    others = {"llm_headers": "X-Team=TEAM_TOKEN", "llm_concurrency": 3, "llm_failures": "skip", "llm_max_tokens": 5}
    assert keys(**others) == keys()
    assert keys(llm_base_url=f"{URL}/") == keys()


def test_of_a_judge(keys):
    assert keys(judge=JudgeConfig()) == "d6c9a0499b4645073420ef2837efeab54f818feae7e47e2195295e70aed01283"
    keys.kept.unknown = {keys(judge=JudgeConfig())}
    assert keys(judge=JudgeConfig()) == "4544570989d0b2ec6ae140496cb0eddf4461ca1b43e336e7efe0f074d03025f6", "so far"
    other = JudgeConfig(judge_base_url="https://judge.example.org/v1", judge_model="large-1", judge_extra='{"seed": 1}')
    assert keys(judge=other) == "988e64e363963f351edcaf849eb0027ce1f0ef68f607dceb6d9858268826fe89"


def test_of_a_function_of_the_caller(keys):
    own = {"llm_base_url": "function", "llm_model": "", "caller": Caller(llm=OwnFunction("answer", str))}
    assert keys(**own) == "869748980a3837f3515d60e9cc24f85246a84474ae796ce90464b5e98efc169b"
    assert keys(CHAT, **own) == "d838a94ebf875c0266f0486c763b3cf72f73323a88ec311193242392d813ccf9"
