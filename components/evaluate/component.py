"""The component `evaluate`: score the winner on the test set, write the report, publish the prompt."""

from typing import Any

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def evaluate(
    parameters: dict[str, Any],
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    test: dsl.Input[dsl.Dataset],
    summary: dsl.Input[dsl.Artifact],
    best_sequence: dsl.Input[dsl.Artifact],
    history: dsl.Input[dsl.Dataset],
    search: dsl.Input[dsl.Artifact],
    predictions: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    confusion: dsl.Output[dsl.ClassificationMetrics],
    page: dsl.Output[dsl.HTML],
    result: dsl.Output[dsl.Artifact],
    verdict: dsl.Output[dsl.Markdown],
    lineage: dsl.Output[dsl.Artifact],
) -> None:
    """Score the winner, random exemplars, none and the baseline on the test set; write the report; publish the prompt.

    Args:
        parameters: Such as llm_base_url, store_uri, publish_uri; what is missing has its default.
        pool: Exemplars that the search chose from, Parquet.
        validation: Validation set, Parquet.
        test: Test set, which decided nothing, Parquet.
        summary: What build_dataset says of the data, JSON.
        best_sequence: The winning sequence with its texts, JSON.
        history: All evaluations of the search, Parquet.
        search: Cost, time and stop reason of the search, JSON.
        predictions: Every answer on the test set with its score, Parquet.
        metrics: A few numbers by which the dashboard compares runs.
        confusion: Expected against answered labels, of a task with few of them.
        page: The report for people.
        result: Folder with the prompt and the report to take away, test scores, publication and signed provenance.
        verdict: What was found, the prompt, and what went into it, for people.
        lineage: Records of what was done, JSON.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import component, show
    from ease_lib.running.stage import file_in
    from ease_lib.stages import evaluate as stage
    from ease_lib.stages import gate, publish, report

    test_scores, results = file_in(result, "test_scores.json"), file_in(result, "report")
    compared = file_in(result, "gate.json")
    with component("evaluate", parameters, lineage) as do:
        tested = do(
            stage,
            pool=pool,
            test=test,
            summary=summary,
            best_sequence=best_sequence,
            predictions=predictions,
            test_scores=test_scores,
        )
        do(
            gate,
            pool=pool,
            test=test,
            summary=summary,
            best_sequence=best_sequence,
            predictions=predictions,
            test_scores=test_scores,
            gate=compared,
        )
        reported = do(
            report,
            pool=pool,
            summary=summary,
            best_sequence=best_sequence,
            test=test,
            history=history,
            search=search,
            predictions=predictions,
            test_scores=test_scores,
            gate=compared,
            numbers=file_in(result, "numbers.json"),
            page=page,
            results=results,
        )
        published = do(
            publish,
            validation=validation,
            best_sequence=best_sequence,
            results=results,
            publication=file_in(result, "publication.json"),
            verdict=verdict,
        )
        show(metrics, confusion, tested, reported, published)
