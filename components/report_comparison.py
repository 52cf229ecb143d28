"""Component `report_comparison`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def report_comparison(
    cells: dsl.Input[list[dsl.Artifact]],
    page: dsl.Output[dsl.HTML],
    results: dsl.Output[dsl.Artifact],
) -> None:
    """Say which method is best: a page, Markdown and Parquet.

    Args:
        cells: Results of all cells.
        page: The page for people.
        results: Folder with page, Markdown and Parquet.
    """
    from ease_lib.stages import report_comparison as stage

    stage.execute([cell.path for cell in cells], stage.Outputs(page=page.path, results=results.path))
