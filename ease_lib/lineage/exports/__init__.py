"""Lineage in the forms that other tools read: SLSA, OpenLineage, Croissant."""
