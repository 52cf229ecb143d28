"""Component `report`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def report(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    dataset: dsl.Input[dsl.Artifact],
    best_sequence: dsl.Input[dsl.Artifact],
    history: dsl.Input[dsl.Dataset],
    search: dsl.Input[dsl.Artifact],
    predictions: dsl.Input[dsl.Dataset],
    test_scores: dsl.Input[dsl.Artifact],
    numbers: dsl.Output[dsl.Artifact],
    page: dsl.Output[dsl.HTML],
    results: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Write the report: numbers, page, and the folder of results to take away.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        dataset: What build_dataset says of the data.
        best_sequence: The winning sequence.
        history: All observations.
        search: What optimize says of the search.
        predictions: Answers on the test set.
        test_scores: What evaluate measured.
        numbers: The numbers of the run, as JSON.
        page: The page for people.
        results: Folder with prompt, messages, sequence, history and report.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import report as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        dataset=dataset,
        best_sequence=best_sequence,
        history=history,
        search=search,
        predictions=predictions,
        test_scores=test_scores,
        numbers=numbers,
        page=page,
        results=results,
    )
