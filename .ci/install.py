"""Installs packages into the virtual environment whose Python runs it: .venv/bin/python .ci/install.py ARGUMENTS.

The arguments are those of `pip install`. uv is several times as fast as pip; if it cannot be had, or fails, pip
installs. uv does not read pip's configuration, so what that says of indexes and certificates is passed on. Of several
indexes with the same version pip takes the file that fits best, and uv that of the first: so the main one is the first.
"""

import ast
import os
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
OF_PIP = {  # a setting of pip's, and uv's variable for it
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}


def settings_for_uv() -> dict[str, str]:
    """Return pip's configuration as variables of uv."""
    told = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    found = {}
    for scope in ("global.", "install.", ":env:."):  # the later ones win, and pip prints them by the alphabet
        for line in told.splitlines():  # global.cert='...'
            place, _, value = line.partition("=")
            name = place.removeprefix(scope)
            if place.startswith(scope) and name in OF_PIP:
                separator = "," if name == "find-links" else " "
                found[OF_PIP[name]] = separator.join(ast.literal_eval(value).split())
    if not {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS"} & found.keys():
        found["UV_TORCH_BACKEND"] = "auto"  # without a GPU the build for CPUs: the index's own has gigabytes of CUDA
    if "UV_INDEX" in found:
        main = os.environ.get("UV_DEFAULT_INDEX") or found.get("UV_DEFAULT_INDEX") or default_index()
        found["UV_INDEX"] = f"{main} {found['UV_INDEX']}"
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **found}  # the best version of all indexes, as pip has it


def default_index() -> str:
    """Return the address of the index that pip uses if none is configured."""
    from pip._internal.models.index import PyPI  # the only place that has it

    return PyPI.simple_url


def install_with_uv(arguments: list[str]) -> bool:
    """Return whether uv has installed everything."""
    if subprocess.run([*PIP, "install", "--quiet", "-c", "constraints.txt", "uv"], check=False).returncode != 0:
        return False
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    return subprocess.run([*uv, *arguments], env={**settings_for_uv(), **os.environ}, check=False).returncode == 0


if __name__ == "__main__":
    if not install_with_uv(sys.argv[1:]):
        print("uv could not install it, so pip does, which takes some minutes.", flush=True)
        sys.exit(subprocess.run([*PIP, "install", "--quiet", "--no-compile", *sys.argv[1:]], check=False).returncode)
