from components.run_cell.component import run_cell

__all__ = ["run_cell"]
