"""Functions that are named by text, ``module:function``, as the command line has them."""

from __future__ import annotations

import importlib
from typing import Any

from tune_media.values.problems import remedy
from tune_media.values.secrets import error_text


def named_function(place: str) -> Any:
    """Return the function that ``module:function`` names. Raises ValueError.

    >>> named_function("math:sqrt")(4)
    2.0
    >>> named_function("math")
    Traceback (most recent call last):
    ValueError: 'math' names no function: pass module:function (AttributeError: module 'math' has no attribute '')
    """
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{place!r} names no function: " + remedy(f"pass module:function ({error_text(error)})")
        ) from error
    except SystemExit as error:  # a script that trains when it is imported
        raise ValueError(f"{place!r}: importing {module} called sys.exit({error.code!r})") from error
    except Exception as error:  # a syntax error
        raise ValueError(f"{place!r}: importing {module} failed ({error_text(error)})") from error
