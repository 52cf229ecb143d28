"""A host and a run of it, for tests of what is given one."""

from contextlib import contextmanager

from ease_lib.config.sections import CapsConfig, ContinuationConfig, JudgeConfig
from ease_lib.running import planning, prerequisites
from ease_lib.running.run import open_host, open_run, run_of
from ease_lib.stages import check_prerequisites


@contextmanager
def opened_run(parameters=None, **more):
    """A run with these parameters, by default one that keeps nothing."""
    with open_host() as host, open_run(host, *(run_of(parameters) if parameters else ("", "")), **more) as run:
        yield run


def run_stages(at, parameters, *stages):
    """Run stages in a workspace, unrecorded; the report of the last."""
    with opened_run(parameters) as run:
        return at.run(parameters, run, *stages)


def check(*parameters):
    """Try what runs need; the endpoints' answers to the trial question."""
    with opened_run() as run:
        return prerequisites.check(*parameters, run=run)


def checked(parameters):
    """The parameters behind the check of what the run needs."""
    with opened_run(parameters) as run:
        return check_prerequisites.checked(parameters, run)


def planned(parameters):
    """The parts of a run, as `ease plan` lists them."""
    with opened_run(parameters) as run:
        return planning.planned(parameters, run)


def findings(*parameters):
    """All findings about what runs need."""
    with opened_run() as run:
        return list(prerequisites.findings(*parameters, run=run))


class _Asking:
    """The sections of a stage that asks."""

    def __init__(self, endpoint, judge, answers, caps):
        self.endpoint, self.judge, self.caps = endpoint, judge or JudgeConfig(), caps
        self.continuation = ContinuationConfig(answers=answers)


@contextmanager
def open_black_box(config, *, sampling, store_uri="", answers="", judge=None, caps=None, **more):
    """The black-box of a configuration, with the answers that lie in a store."""
    with (
        open_host() as host,
        open_run(host, store_uri, "", **more) as run,
        run.llm(_Asking(config, judge, answers, caps or CapsConfig()), sampling, "test", judged=judge) as black_box,
    ):
        yield black_box
