"""Execution of runs: Host, Run, the graph, one process, a container, a comparison."""
