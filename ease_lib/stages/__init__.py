"""The stages of a run, one module each: the only place where files, network and algorithms meet.

A stage is `run(inputs, outputs, config) -> StageReport`. `Inputs` and `Outputs` hold the paths of the artifacts, each
field's contract in its metadata; `Config` holds the sections of parameters that the stage reads.
"""
