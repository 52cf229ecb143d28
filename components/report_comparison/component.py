"""The component `report_comparison`: report which method is best."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def report_comparison(
    plan: dsl.Input[dsl.Artifact],
    page: dsl.Output[dsl.HTML],
    results: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
    verdict: dsl.Output[dsl.Markdown],
) -> None:
    """Report which method is best, if the difference is significant: a page, Markdown and Parquet.

    Args:
        plan: The cells, and where workers have left their results, JSON.
        page: The page for people.
        results: Folder with page, Markdown and Parquet.
        lineage: Record of what was done, JSON.
        verdict: What was found, for people.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.stages import report_comparison as stage

    stage.execute(plan, page, results, lineage, verdict)
