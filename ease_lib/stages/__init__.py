"""The stages of a run, one module each: the only place where files, network and algorithms meet.

A stage is `run(inputs, outputs, config) -> StageReport`. `Inputs` and `Outputs` hold the paths of the artifacts, each
field with its contract, what it is, and for an input the output it comes from (`running/stage.py: artifact`);
`Config` holds the sections of parameters that the stage reads. `running/graph.py` lists the stages. The first line of a
module is what the dashboard and `ease --help` say of its stage.
"""
