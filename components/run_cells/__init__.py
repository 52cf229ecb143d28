from components.run_cells.component import run_cells

__all__ = ["run_cells"]
