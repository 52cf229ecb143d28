"""The prompt for LangChain: chain().invoke({field: ...}) is the answer; `prompt` alone composes with other models."""

import os

from ease_prompt import PROMPT, answer_of
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_openai import ChatOpenAI, OpenAI


def _template(content):
    parts = (
        part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else "{" + part["field"] + "}"
        for part in content
    )
    return "".join(parts)


if PROMPT["api"] == "chat":
    prompt = ChatPromptTemplate.from_messages(
        [(each["role"], _template(each["content"])) for each in PROMPT["messages"]], template_format="f-string"
    )
else:
    prompt = PromptTemplate.from_template(_template(PROMPT["messages"][0]["content"]), template_format="f-string")


def model(**settings):
    """The model with the sampling that the scores were measured with; settings win."""
    own = {
        "model": PROMPT["model"],
        "api_key": os.environ.get("EASE_LLM_API_KEY") or os.environ.get("OPENAI_API_KEY") or "no-key",
        "extra_body": PROMPT["sampling"],
        **({"base_url": PROMPT["endpoint"]} if "://" in PROMPT["endpoint"] else {}),
    }
    return (ChatOpenAI if PROMPT["api"] == "chat" else OpenAI)(**{**own, **settings})


def chain(**settings):
    """A chain from the fields of a query to the text of the answer."""
    return prompt | model(**settings) | StrOutputParser() | answer_of
