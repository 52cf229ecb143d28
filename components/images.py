"""The container image of the components. Its tag is the library's version: a tag is never built twice."""

from ease_lib import __version__

CPU = f"ease-pipelines-cpu:{__version__}"
