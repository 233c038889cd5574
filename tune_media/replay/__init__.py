"""Tapes of episodes: recorded beside the env that is stepped, played again in another env, here or elsewhere.

In come the steps of an env, and how it is made. Out go tapes, recipes, verdicts on these, and the clips that a separate
process makes. It may import ``recording`` and the wings below it.
"""

__all__ = [
    "batch_taping",
    "child_processes",
    "own_code",
    "player",
    "playing",
    "prefix",
    "proofs",
    "recipe",
    "render_pool",
    "tape",
    "tape_recorder",
    "taped_clip",
    "taping",
    "verdicts",
]
