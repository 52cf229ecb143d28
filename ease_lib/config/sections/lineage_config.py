"""Lineage."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class LineageConfig(Section):
    """Place where every stage records its work; sent to every stage."""

    lineage_uri: str = param(
        "",
        "Folder or s3:// for the lineage records; empty: lineage/ in store_uri, or without that in publish_uri.",
        role="place",
    )
    openlineage_url: str = param(
        "", "Endpoint to send OpenLineage events to; its failures do not stop a run.", role="place"
    )
    run_name: str = param(
        "",
        "Name of the run in its records; a pipeline sets it to its name in the dashboard.",
        role="place",
        internal=True,
    )
