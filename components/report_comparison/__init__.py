from components.report_comparison.component import report_comparison

__all__ = ["report_comparison"]
