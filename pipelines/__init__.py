"""The pipelines, compiled for a cluster or run on a laptop."""
