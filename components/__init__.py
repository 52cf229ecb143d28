"""The components of the pipelines, a folder each: `components.optimize(...)` in a pipeline of your own.

Inside of a component's process is `ease_lib/running/component.py`; what its pod needs is `pipelines/placement.py`.
"""

from components.build_dataset import build_dataset
from components.embed import embed
from components.evaluate import evaluate
from components.optimize import optimize
from components.plan_comparison import plan_comparison
from components.prefilter import prefilter
from components.rank_shard import rank_shard
from components.report_comparison import report_comparison
from components.run_cells import run_cells

RUN = (build_dataset, prefilter, embed, optimize, evaluate)
"""The components of a run, in order; `rank_shard` joins them in a pipeline that is compiled with shards."""
ALL = (*RUN, rank_shard, plan_comparison, run_cells, report_comparison)

__all__ = [
    "ALL",
    "RUN",
    "build_dataset",
    "embed",
    "evaluate",
    "optimize",
    "plan_comparison",
    "prefilter",
    "rank_shard",
    "report_comparison",
    "run_cells",
]
