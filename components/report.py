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
    """
    from ease_lib.stages import report as stage
    from ease_lib.stages.execution import execute

    inputs = stage.Inputs(
        pool=pool.path,
        dataset=dataset.path,
        best_sequence=best_sequence.path,
        history=history.path,
        search=search.path,
        predictions=predictions.path,
        test_scores=test_scores.path,
    )
    outputs = stage.Outputs(numbers=numbers.path, page=page.path, results=results.path)
    execute(stage.run, inputs, outputs, stage.Config, config).publish(metrics)
