"""Stage `propose_instructions`: have the black-box propose instructions from exemplars, or read them from a file; the
empty one is always there.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_records
from ease_lib.black_box.budget_ledger import PROPOSALS
from ease_lib.black_box.client import Completion, Paid, Sampling, all_answers
from ease_lib.black_box.layers import BlackBox
from ease_lib.black_box.usage import Usage, usage_of
from ease_lib.config.sections import (
    Asks,
    InstructionConfig,
)
from ease_lib.errors import ConfigError, EndpointError
from ease_lib.prompts.instructions import (
    PROPOSAL_TEMPERATURE,
    PROPOSAL_TOKENS,
    distinct_instructions,
    instruction_of,
    proposal_prompts,
    read_instruction_file,
)
from ease_lib.prompts.template import exemplar_text
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar

PROPOSALS_PER_LINE = 20
"""Proposals between two lines of progress."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    instructions: str = makes(contracts.INSTRUCTIONS)


@dataclass(frozen=True, kw_only=True)
class Config(Asks):
    instructions: InstructionConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Ask for the instructions, or read them from `instructions_uri`; by default there is only the empty one.

    Raises:
        ConfigError: when the cap on requests does not allow so many proposals.
        DataError: when the file cannot be used.
        EndpointError: when the black-box fails for good.
    """
    usage, new_requests, texts = Usage(), 0, [""]
    if config.instructions.instructions_uri:
        texts = read_instruction_file(config.instructions.instructions_uri, run.sources)
    elif config.instructions.instructions:
        pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
        texts, usage, new_requests = _proposed(pool, config, run)
    instructions = distinct_instructions(texts)
    rows = [contracts.InstructionRow(number, text) for number, text in enumerate(instructions)]
    metadata = {"usage": json.dumps(asdict(usage)), "new_requests": str(new_requests)}
    write_records(output_path(outputs.instructions), contracts.INSTRUCTIONS, rows, metadata)
    if len(texts) > 1:
        logger.info("%d different instructions of %d, and the empty one", len(instructions) - 1, len(texts))
    return StageReport(metrics={"instructions": len(instructions), "llm_requests": usage.requests})


def _proposed(pool: list[Exemplar], config: Config, run: Run) -> tuple[list[str], Usage, int]:
    """One instruction per answer, their cost, and the number of answers that this process received.

    A prompt that is refused, or gets no text, ends the stage unless `llm_failures` passes it over.
    """
    wanted, cap = config.instructions.instructions, config.caps.max_llm_requests
    if cap and wanted >= cap:
        raise ConfigError(
            f"instructions={wanted} leaves nothing of max_llm_requests={cap} for the search; lower it or raise the cap"
        )
    prompts = proposal_prompts(
        [exemplar_text(row) for row in pool],
        wanted,
        rng(config.run.seed, "instruction proposals"),
    )
    sampling = Sampling(max_tokens=PROPOSAL_TOKENS, stop="\n\n", temperature=PROPOSAL_TEMPERATURE)
    answers: list[Paid] = []
    account = f"instructions/{config.run.seed}"
    start = time.perf_counter()
    with run.llm(config, sampling, PROPOSALS) as black_box:
        for first in range(0, wanted, PROPOSALS_PER_LINE):
            asked = prompts[first : first + PROPOSALS_PER_LINE]
            questions = [partial(_answer, black_box, prompt, account) for prompt in asked]
            answers += black_box.loop.run(all_answers(questions))
            logger.info("%d of %d instructions proposed", len(answers), wanted)
    proposed = [each for each in answers if isinstance(each, Completion)]
    refused = [each for each in answers if isinstance(each, EndpointError)]
    answered = [prompt for prompt, each in zip(prompts, answers, strict=True) if isinstance(each, Completion)]
    usage = usage_of(answered, proposed, time.perf_counter() - start)
    usage = sum(map(Usage.of, refused), start=usage)
    run.budget(config).book(PROPOSALS, usage)
    if refused and not proposed:
        raise refused[0]
    if refused:
        logger.info("notice: %d of %d instructions were not proposed: %s", len(refused), wanted, refused[0])
    return [instruction_of(completion.text) for completion in proposed], usage, black_box.answered


async def _answer(black_box: BlackBox, prompt: str, account: str) -> Paid:
    """The answer, or the reason why this prompt has none, if that should not stop the others."""
    try:
        return await black_box.client.complete(prompt, account)
    except EndpointError as error:
        if not error.of_prompt:
            raise
        if black_box.failures.kind == "stop":
            raise type(error)(
                f"of an instruction: {error}. Set llm_failures to skip to continue with the others"
            ) from error
        return error
