"""Publishing."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class PublishingConfig(Section):
    """Place to publish the winning prompt, and the condition for it to become the latest."""

    publish_uri: str = param(
        "",
        "Folder or s3:// for versions of the prompt, with latest.json; empty publishes nothing.",
        form=True,
        role="place",
    )
    publish_if: str = param(
        "always",
        "When a version becomes the latest: always, or better (it beats the latest on rows that chose neither; the "
        "first one, random exemplars on the test set).",
        choices=("always", "better"),
    )
    publish_signed: bool = param(False, "Refuse to start or to publish without a signing key (EASE_SIGNING_KEY).")
