"""Metadata is in setup.cfg, but for README: a package index cannot follow links to files of the repository."""

import configparser
import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def readme_for_index(text: str, url: str | None) -> str:
    """Return README with links that work outside the repository.

    Args:
        text: README.md.
        url: The repository, on a host with GitHub's paths. None: links to files become plain text, and pictures go.
    """
    if url:
        text = re.sub(r"!\[([^]]*)\]\((?!\w+:)([^)]+)\)", rf"![\1]({url}/raw/main/\2)", text)
        text = re.sub(r'(<img [^>]*src=")(?!\w+:)', rf"\1{url}/raw/main/", text)
        return re.sub(r"(?<!!)\[([^]]*)\]\((?!\w+:|#)([^)]+)\)", rf"[\1]({url}/blob/main/\2)", text)
    text = re.sub(r'!\[[^]]*\]\((?!\w+:)[^)]+\)\n*|<img [^>]*src="(?!\w+:)[^>]*>\n*', "", text)
    return re.sub(r"\[([^]]*)\]\((?!\w+:)[^)]+\)", r"\1", text)


def project_urls(url: str | None) -> dict[str, str]:
    """Return the links that a package index shows beside the repository's, if that is known."""
    if not url:
        return {}
    owner, name = url.split("/")[-2:]
    site = f"https://{owner}.github.io/{name}/"  # docs.yml publishes it
    return {"Documentation": site, "Changelog": f"{url}/blob/main/CHANGELOG.md", "Issues": f"{url}/issues"}


metadata = configparser.ConfigParser()
metadata.read(ROOT / "setup.cfg", encoding="utf-8")
repository = metadata["metadata"].get("url", "").rstrip("/") or None
setup(
    long_description=readme_for_index((ROOT / "README.md").read_text(encoding="utf-8"), repository),
    project_urls=project_urls(repository),
    long_description_content_type="text/markdown",
)
