"""Files that cross a stage border: contracts, tables, and the stores they lie in."""
