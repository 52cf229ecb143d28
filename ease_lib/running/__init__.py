"""How a run lives: Host, Run, the graph, one process, a container, a comparison."""
