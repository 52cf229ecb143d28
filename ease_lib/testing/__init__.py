"""For tests: a conformance suite for optimizers, objectives with a known optimum, a faulty endpoint."""
