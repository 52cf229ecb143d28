"""Files that cross a stage border: what they must be (contracts), how they are read and written, where they live."""
