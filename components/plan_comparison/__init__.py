from components.plan_comparison.component import plan_comparison

__all__ = ["plan_comparison"]
