"""Component `report_comparison`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def report_comparison(
    cells: dsl.Input[list[dsl.Artifact]],
    page: dsl.Output[dsl.HTML],
    results: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Say which method is best: a page, Markdown and Parquet.

    Args:
        cells: Results of all cells.
        page: The page for people.
        results: Folder with page, Markdown and Parquet.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.stages import report_comparison as stage

    stage.execute(cells, page, results, lineage, chain)
