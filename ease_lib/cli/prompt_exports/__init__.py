"""The winning prompt in the form that other libraries take, with the sampling that it was scored with."""
