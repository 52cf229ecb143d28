"""The graphs, compiled for the cluster or run on the laptop."""
